package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
)

// A schema of one release. A field stands under its message, whose own text says
// that the release has it.
type schemaText struct {
	release string
	fields  map[field]string
}

type field struct{ owner, name string }

// writeDrift compares schemas of several releases, which are files that this
// program wrote, and writes a table of what is not the same in all of them: a
// line for each kind, message or field, with its description in each release, or
// a dash. Fields are compared among the releases that have their message.
//
// Fields that are marked with `always` are written even if they are not set.
// Protobuf of a release without such a field does not show that it is missing,
// so JSON that is made of it with another release's schema has a field too many.
func writeDrift(to io.Writer, files []string) error {
	var schemas []schemaText
	var releases []string
	rows := map[string]field{}
	for _, file := range files {
		schema, err := readSchema(file)
		if err != nil {
			return err
		}
		schemas = append(schemas, schema)
		releases = append(releases, schema.release)
		for known := range schema.fields {
			rows[known.owner+known.name] = known
		}
	}
	out := bufio.NewWriter(to)
	fmt.Fprintf(out, "| field | %s |\n", strings.Join(releases, " | "))
	fmt.Fprintf(out, "|---%s|\n", strings.Repeat("|---", len(releases)))
	for _, name := range sortedKeys(rows) {
		row := rows[name]
		cells, seen := []string{}, map[string]bool{}
		for _, schema := range schemas {
			described, has := schema.fields[row]
			_, hasOwner := schema.fields[field{row.owner, ""}]
			if has || hasOwner || row.name == "" {
				seen[described] = true
			}
			if !has {
				described = "-"
			}
			cells = append(cells, described)
		}
		if len(seen) > 1 {
			fmt.Fprintf(out, "| %s | %s |\n", name, strings.Join(cells, " | "))
		}
	}
	return out.Flush()
}

func readSchema(file string) (schemaText, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return schemaText{}, err
	}
	schema := schemaText{release: file, fields: map[field]string{}}
	owner, inGroup := "", false
	for _, line := range strings.Split(string(text), "\n") {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "#":
		case words[0] == "kubernetes":
			schema.release = words[1]
		case words[0] == "message":
			owner, inGroup = words[1], false
			schema.fields[field{owner, ""}] = strings.Join(append(words[:1], words[2:]...), " ")
		case words[0] == "group":
			owner, inGroup = words[1], true
		case inGroup && !strings.HasSuffix(words[0], "Options") && words[0] != "WatchEvent":
			schema.fields[field{owner + " " + words[0], ""}] = "kind"
		case !inGroup && len(words) > 2:
			schema.fields[field{owner, "." + words[1]}] = describeField(words)
		}
	}
	return schema, nil
}

// describeField returns the number and the type of a field, and whether it is
// written when it is not set.
func describeField(words []string) string {
	described := words[0] + " " + words[2]
	flags := words[3:]
	sort.Strings(flags)
	omitted := len(flags) > 0 && strings.HasPrefix(flags[len(flags)-1], "omit")
	message := strings.Contains(words[2], "/") && !strings.ContainsAny(words[2][:1], "*[{")
	// JSON leaves out no struct that is only `omitempty`.
	if !omitted || message && flags[len(flags)-1] == "omitempty" {
		described += " always"
	}
	return described
}

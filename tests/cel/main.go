// Evaluates CEL expressions as kube-apiserver's admission policies do, with the variable
// `object` of type dyn. It reads a JSON document per line from standard input, with an
// object and expressions, and prints the result of each expression.
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
)

type question struct {
	Object      json.RawMessage `json:"object"`
	Expressions []string        `json:"expressions"`
}

// result has one of the members.
type result struct {
	Value any `json:"value,omitempty"`
	// Null tells a null from no value.
	Null bool `json:"null,omitempty"`
	// Error is the text of an error while the expression ran.
	Error string `json:"error,omitempty"`
	// Invalid is the text of an error before it ran.
	Invalid string `json:"invalid,omitempty"`
}

func main() {
	set, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(
		environment.VersionedOptions{
			IntroducedVersion: version.MajorMinor(1, 0),
			EnvOptions:        []cel.EnvOption{cel.Variable("object", cel.DynType)},
		})
	if err != nil {
		log.Fatal(err)
	}
	env := set.StoredExpressionsEnv()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	out := bufio.NewWriter(os.Stdout)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			log.Fatal(err)
		}
		var object any
		if err := utiljson.Unmarshal(asked.Object, &object); err != nil {
			log.Fatal(err)
		}
		results := make([]result, len(asked.Expressions))
		for n, expression := range asked.Expressions {
			results[n] = evaluate(env, expression, object)
		}
		line, err := json.Marshal(results)
		if err != nil {
			log.Fatal(err)
		}
		out.Write(append(line, '\n'))
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
	if err := out.Flush(); err != nil {
		log.Fatal(err)
	}
}

func evaluate(env *cel.Env, expression string, object any) result {
	compiled, issues := env.Compile(expression)
	if issues.Err() != nil {
		return result{Invalid: issues.Err().Error()}
	}
	program, err := env.Program(compiled, cel.CostLimit(10_000_000))
	if err != nil {
		return result{Invalid: err.Error()}
	}
	value, _, err := program.ContextEval(context.Background(), map[string]any{"object": object})
	if err != nil {
		return result{Error: err.Error()}
	}
	plain, err := plainOf(value)
	if err != nil {
		return result{Error: "no result: " + err.Error()}
	}
	return result{Value: plain, Null: plain == nil}
}

// plainOf returns a value that has JSON.
func plainOf(value ref.Val) (any, error) {
	switch value := value.(type) {
	case types.Null:
		return nil, nil
	case types.Bool:
		return bool(value), nil
	case types.Int:
		return int64(value), nil
	case types.Uint:
		return uint64(value), nil
	case types.Double:
		// As in protobuf's JSON.
		switch {
		case math.IsNaN(float64(value)):
			return "NaN", nil
		case math.IsInf(float64(value), 1):
			return "Infinity", nil
		case math.IsInf(float64(value), -1):
			return "-Infinity", nil
		}
		return json.Number(strconv.FormatFloat(float64(value), 'g', -1, 64)), nil
	case types.String:
		return string(value), nil
	case types.Bytes:
		return base64.StdEncoding.EncodeToString(value), nil
	case types.Timestamp:
		return timeText(value.Time), nil
	case types.Duration:
		return strconv.FormatFloat(value.Seconds(), 'f', -1, 64) + "s", nil
	case *types.Type:
		return value.TypeName(), nil
	case traits.Lister:
		items := []any{}
		for it := value.Iterator(); it.HasNext() == types.True; {
			item, err := plainOf(it.Next())
			if err != nil {
				return nil, err
			}
			items = append(items, item)
		}
		return items, nil
	case traits.Mapper:
		members := map[string]any{}
		for it := value.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			member, err := plainOf(value.Get(key))
			if err != nil {
				return nil, err
			}
			members[fmt.Sprint(key.Value())] = member
		}
		return members, nil
	}
	return nil, fmt.Errorf("a %s", value.Type().TypeName())
}

// timeText writes a time as protobuf's JSON does, with 0, 3, 6 or 9 digits of a second.
func timeText(t time.Time) string {
	t = t.UTC()
	switch nanos := t.Nanosecond(); {
	case nanos == 0:
		return t.Format("2006-01-02T15:04:05Z")
	case nanos%1_000_000 == 0:
		return t.Format("2006-01-02T15:04:05.000Z")
	case nanos%1_000 == 0:
		return t.Format("2006-01-02T15:04:05.000000Z")
	}
	return t.Format("2006-01-02T15:04:05.000000000Z")
}

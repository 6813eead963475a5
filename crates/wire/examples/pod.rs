//! Decodes a pod from its protobuf bytes and prints it as JSON, as the row of a
//! Table and as PartialObjectMetadata.
//!
//! ```sh
//! cargo run -p kubernetes-wire --example pod
//! cargo run -p kubernetes-wire --example pod -- pod.pb   # from a server or etcd
//! ```

use std::error::Error;

use chrono::{DateTime, Utc};
use kubernetes_wire::negotiation::{IncludeObject, MetaVersion};
use kubernetes_wire::representation::{BuiltInObject, TableOptions};

/// The example pod. A server would send it in protobuf; here it is JSON, to be
/// readable.
const POD: &str = r#"{"kind":"Pod","apiVersion":"v1",
    "metadata":{"name":"web","namespace":"shop","creationTimestamp":"2026-01-01T00:00:00Z"},
    "spec":{"containers":[{"name":"nginx","image":"nginx:1.29"}]},
    "status":{"phase":"Running","containerStatuses":[{"name":"nginx","ready":true,
        "restartCount":0,"image":"nginx:1.29","imageID":"","lastState":{},
        "state":{"running":{"startedAt":"2026-01-01T00:00:02Z"}}}]}}"#;

fn main() -> Result<(), Box<dyn Error>> {
    let bytes = match std::env::args().nth(1) {
        Some(file) => std::fs::read(file)?,
        None => BuiltInObject::from_json(POD.as_bytes())?
            .to_protobuf()?
            .to_vec(),
    };
    println!("{} bytes of protobuf", bytes.len());

    let pod = BuiltInObject::from_protobuf(&bytes)?;
    print!("{}", String::from_utf8_lossy(&pod.to_json()));

    let options = TableOptions {
        version: MetaVersion::V1,
        include: IncludeObject::None,
    };
    let now: DateTime<Utc> = "2026-01-01T01:30:00Z".parse()?;
    let table = pod.to_table("pods", options, now)?;
    let table: serde_json::Value = serde_json::from_slice(&table)?;
    println!("{}", table["rows"][0]["cells"]);

    let metadata = pod.to_partial_object_metadata()?;
    println!("{}", String::from_utf8_lossy(&metadata));
    Ok(())
}

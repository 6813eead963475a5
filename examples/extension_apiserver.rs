//! An extension API server with its own API group, as an aggregation layer
//! finds it behind an APIService.
//!
//! ```text
//! cargo run --example extension_apiserver -- --listen 127.0.0.1:8444
//! kubectl --server http://127.0.0.1:8444 get flunders -A
//! ```
//!
//! It serves `wardle.example.com/v1alpha1` with `flunders` (namespaced), and
//! nothing else that a client would look for. The embedded server stores, lists
//! and watches the objects. This program lets through only requests for the
//! group, as a separate server would. An APIService puts the group in front of
//! users:
//! ```yaml
//! apiVersion: apiregistration.k8s.io/v1
//! kind: APIService
//! metadata: {name: v1alpha1.wardle.example.com}
//! spec:
//!   group: wardle.example.com
//!   version: v1alpha1
//!   groupPriorityMinimum: 1000
//!   versionPriority: 15
//!   service: {name: wardle, namespace: wardle}
//! ```

use std::{convert::Infallible, net::SocketAddr};

use apifront_embedded::{EmbeddedServer, Handle};
use bytes::Bytes;
use clap::Parser;
use http::{Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const GROUP: &str = "wardle.example.com";
const VERSION: &str = "v1alpha1";

type Body = UnsyncBoxBody<Bytes, hyper::Error>;
type Storage = Client<HttpConnector, Incoming>;

/// Serves wardle.example.com/v1alpha1 on plain HTTP, without authentication:
/// keep it on loopback, or put TLS in front. Everything is gone when it ends.
#[derive(Parser)]
struct Arguments {
    #[arg(long, default_value = "127.0.0.1:8444")]
    listen: SocketAddr,
    /// Flunders to begin with.
    #[arg(long, default_value_t = 3)]
    samples: usize,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let storage = EmbeddedServer::new()
        .start(([127, 0, 0, 1], 0).into())
        .await?;
    define(&storage, arguments.samples).await?;
    let listener = TcpListener::bind(arguments.listen).await?;
    let address = listener.local_addr()?;
    println!("An extension API server for {GROUP}/{VERSION} is at http://{address}. Try:");
    println!("  kubectl --server http://{address} get flunders -A");
    println!("  curl http://{address}/apis/{GROUP}/{VERSION}");
    println!("Everything is gone when it ends; Ctrl-C ends it.");
    let client = Client::builder(TokioExecutor::new()).build_http();
    tokio::select! {
        served = serve(listener, storage.address(), client) => served?,
        interrupted = tokio::signal::ctrl_c() => interrupted?,
    }
    storage.stop().await;
    Ok(())
}

async fn serve(listener: TcpListener, storage: SocketAddr, client: Storage) -> anyhow::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let client = client.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(client.clone(), storage, request));
            // A broken connection only concerns its client.
            let _ = auto::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// Forwards requests for the group, and for what every API server answers, to
/// storage. Other paths do not exist here.
async fn answer(
    client: Storage,
    storage: SocketAddr,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path().trim_end_matches('/').to_owned();
    let own = format!("/apis/{GROUP}");
    // Aggregators take from OpenAPI v2 only what is under the group.
    let general = ["/healthz", "/livez", "/readyz", "/version", "/openapi/v2"];
    let ours = path == own
        || path.starts_with(&format!("{own}/"))
        || path == format!("/openapi/v3{own}/{VERSION}")
        || general.iter().any(|g| path.starts_with(g));
    let result = match path.as_str() {
        _ if ours => forward(client, storage, request).await,
        // Unaggregated discovery is enough for any aggregator.
        "/apis" => Ok(document(&json!({
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [{
                "name": GROUP,
                "versions": [{"groupVersion": format!("{GROUP}/{VERSION}"), "version": VERSION}],
                "preferredVersion": {"groupVersion": format!("{GROUP}/{VERSION}"), "version": VERSION},
            }],
        }))),
        "/openapi/v3" => {
            let own = format!("apis/{GROUP}/{VERSION}");
            let url = format!("/openapi/v3/{own}");
            Ok(document(
                &json!({"paths": {own: {"serverRelativeURL": url}}}),
            ))
        }
        "/api" => Ok(document(&json!({"kind": "APIVersions", "versions": []}))),
        _ => Ok(text(StatusCode::NOT_FOUND, "404 page not found\n")),
    };
    Ok(result.unwrap_or_else(|error| text(StatusCode::BAD_GATEWAY, &error.to_string())))
}

async fn forward(
    client: Storage,
    storage: SocketAddr,
    mut request: Request<Incoming>,
) -> anyhow::Result<Response<Body>> {
    let path = request.uri().path_and_query().map_or("/", |p| p.as_str());
    *request.uri_mut() = Uri::builder()
        .scheme("http")
        .authority(storage.to_string())
        .path_and_query(path)
        .build()?;
    *request.version_mut() = http::Version::HTTP_11;
    for hop in [header::CONNECTION, header::TE, header::UPGRADE] {
        request.headers_mut().remove(hop);
    }
    let mut response = client.request(request).await?;
    response.headers_mut().remove(header::TRANSFER_ENCODING);
    response.headers_mut().remove(header::CONNECTION);
    Ok(response.map(|body| body.boxed_unsync()))
}

fn document(value: &Value) -> Response<Body> {
    let mut response = text(StatusCode::OK, &format!("{value}\n"));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/json"),
    );
    response
}

fn text(status: StatusCode, message: &str) -> Response<Body> {
    let body = Full::from(message.to_owned()).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = status;
    response
}

/// Defines the group in storage, and creates some objects in it.
async fn define(storage: &Handle, samples: usize) -> anyhow::Result<()> {
    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let post = async |path: String, object: Value| -> anyhow::Result<()> {
        let request = Request::post(format!("http://{}{path}", storage.address()))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::from(object.to_string()))?;
        let status = client.request(request).await?.status();
        anyhow::ensure!(status.is_success(), "{path}: {status}");
        Ok(())
    };
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let columns = json!([
        {"name": "Reference", "type": "string", "jsonPath": ".spec.reference"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    let definition = json!({
        "kind": "CustomResourceDefinition",
        "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": format!("flunders.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "flunders", "singular": "flunder", "kind": "Flunder"},
            "versions": [{"name": VERSION, "served": true, "storage": true, "schema": schema,
                "additionalPrinterColumns": columns}],
        },
    });
    post(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned(),
        definition,
    )
    .await?;
    for i in 0..samples {
        let flunder = json!({
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": "Flunder",
            "metadata": {"name": format!("flunder-{i}")},
            "spec": {"reference": format!("part-{i}")},
        });
        let path = format!("/apis/{GROUP}/{VERSION}/namespaces/default/flunders");
        post(path, flunder).await?;
    }
    Ok(())
}

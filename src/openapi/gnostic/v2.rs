//! The messages of OpenAPI v2 (gnostic `openapiv2/OpenAPIv2.proto`).

use super::message::{Field, Kind, Message};

use Kind::{
    AdditionalProperties, Any, Anys, Double, Flag, Int, Items, Map, Messages, One, Parameters,
    Paths, Primitive, Responses, SchemaItem, Security, SecurityDefinitions, Text, Texts, Type,
};

const fn field(json: &'static str, number: u32, kind: Kind) -> Field {
    Field { json, number, kind }
}

pub(super) static DOCUMENT: Message = Message {
    fields: &[
        field("swagger", 1, Text),
        field("info", 2, One(&INFO)),
        field("host", 3, Text),
        field("basePath", 4, Text),
        field("schemes", 5, Texts),
        field("consumes", 6, Texts),
        field("produces", 7, Texts),
        field("paths", 8, Paths),
        field("definitions", 9, Map(&SCHEMA)),
        field("parameters", 10, Kind::ParameterDefinitions),
        field("responses", 11, Map(&RESPONSE)),
        field("security", 12, Security),
        field("securityDefinitions", 13, SecurityDefinitions),
        field("tags", 14, Messages(&TAG)),
        field("externalDocs", 15, One(&EXTERNAL_DOCS)),
    ],
    extensions: 16,
};

static INFO: Message = Message {
    fields: &[
        field("title", 1, Text),
        field("version", 2, Text),
        field("description", 3, Text),
        field("termsOfService", 4, Text),
        field("contact", 5, One(&CONTACT)),
        field("license", 6, One(&LICENSE)),
    ],
    extensions: 7,
};

static CONTACT: Message = Message {
    fields: &[
        field("name", 1, Text),
        field("url", 2, Text),
        field("email", 3, Text),
    ],
    extensions: 4,
};

static LICENSE: Message = Message {
    fields: &[field("name", 1, Text), field("url", 2, Text)],
    extensions: 3,
};

static TAG: Message = Message {
    fields: &[
        field("name", 1, Text),
        field("description", 2, Text),
        field("externalDocs", 3, One(&EXTERNAL_DOCS)),
    ],
    extensions: 4,
};

static EXTERNAL_DOCS: Message = Message {
    fields: &[field("description", 1, Text), field("url", 2, Text)],
    extensions: 3,
};

pub(super) static PATH_ITEM: Message = Message {
    fields: &[
        field("$ref", 1, Text),
        field("get", 2, One(&OPERATION)),
        field("put", 3, One(&OPERATION)),
        field("post", 4, One(&OPERATION)),
        field("delete", 5, One(&OPERATION)),
        field("options", 6, One(&OPERATION)),
        field("head", 7, One(&OPERATION)),
        field("patch", 8, One(&OPERATION)),
        field("parameters", 9, Parameters),
    ],
    extensions: 10,
};

static OPERATION: Message = Message {
    fields: &[
        field("tags", 1, Texts),
        field("summary", 2, Text),
        field("description", 3, Text),
        field("externalDocs", 4, One(&EXTERNAL_DOCS)),
        field("operationId", 5, Text),
        field("produces", 6, Texts),
        field("consumes", 7, Texts),
        field("parameters", 8, Parameters),
        field("responses", 9, Responses),
        field("schemes", 10, Texts),
        field("deprecated", 11, Flag),
        field("security", 12, Security),
    ],
    extensions: 13,
};

pub(super) static BODY_PARAMETER: Message = Message {
    fields: &[
        field("description", 1, Text),
        field("name", 2, Text),
        field("in", 3, Text),
        field("required", 4, Flag),
        field("schema", 5, One(&SCHEMA)),
    ],
    extensions: 6,
};

/// A parameter in a header or a path.
pub(super) static PLAIN_PARAMETER: Message = Message {
    fields: &[
        field("required", 1, Flag),
        field("in", 2, Text),
        field("description", 3, Text),
        field("name", 4, Text),
        field("", 5, Primitive),
    ],
    extensions: 22,
};

/// A parameter in a form or a query.
pub(super) static EMPTIABLE_PARAMETER: Message = Message {
    fields: &[
        field("required", 1, Flag),
        field("in", 2, Text),
        field("description", 3, Text),
        field("name", 4, Text),
        field("allowEmptyValue", 5, Flag),
        field("", 6, Primitive),
    ],
    extensions: 23,
};

/// The fields of a [`Primitive`] field, numbered from that field's number.
pub(super) static PRIMITIVE: [(&str, Kind); 17] = [
    ("type", Text),
    ("format", Text),
    ("items", One(&PRIMITIVES_ITEMS)),
    ("collectionFormat", Text),
    ("default", Any),
    ("maximum", Double),
    ("exclusiveMaximum", Flag),
    ("minimum", Double),
    ("exclusiveMinimum", Flag),
    ("maxLength", Int),
    ("minLength", Int),
    ("pattern", Text),
    ("maxItems", Int),
    ("minItems", Int),
    ("uniqueItems", Flag),
    ("enum", Anys),
    ("multipleOf", Double),
];

static PRIMITIVES_ITEMS: Message = Message {
    fields: &[field("", 1, Primitive)],
    extensions: 18,
};

static HEADER: Message = Message {
    fields: &[field("", 1, Primitive), field("description", 18, Text)],
    extensions: 19,
};

pub(super) static REFERENCE: Message = Message {
    fields: &[field("$ref", 1, Text), field("description", 2, Text)],
    extensions: 0,
};

pub(super) static RESPONSE: Message = Message {
    fields: &[
        field("description", 1, Text),
        field("schema", 2, SchemaItem),
        field("headers", 3, Map(&HEADER)),
        field("examples", 4, Kind::AnyMap),
    ],
    extensions: 5,
};

pub(super) static SCHEMA: Message = Message {
    fields: &[
        field("$ref", 1, Text),
        field("format", 2, Text),
        field("title", 3, Text),
        field("description", 4, Text),
        field("default", 5, Any),
        field("multipleOf", 6, Double),
        field("maximum", 7, Double),
        field("exclusiveMaximum", 8, Flag),
        field("minimum", 9, Double),
        field("exclusiveMinimum", 10, Flag),
        field("maxLength", 11, Int),
        field("minLength", 12, Int),
        field("pattern", 13, Text),
        field("maxItems", 14, Int),
        field("minItems", 15, Int),
        field("uniqueItems", 16, Flag),
        field("maxProperties", 17, Int),
        field("minProperties", 18, Int),
        field("required", 19, Texts),
        field("enum", 20, Anys),
        field("additionalProperties", 21, AdditionalProperties),
        field("type", 22, Type),
        field("items", 23, Items),
        field("allOf", 24, Messages(&SCHEMA)),
        field("properties", 25, Map(&SCHEMA)),
        field("discriminator", 26, Text),
        field("readOnly", 27, Flag),
        field("xml", 28, One(&XML)),
        field("externalDocs", 29, One(&EXTERNAL_DOCS)),
        field("example", 30, Any),
    ],
    extensions: 31,
};

pub(super) static FILE_SCHEMA: Message = Message {
    fields: &[
        field("format", 1, Text),
        field("title", 2, Text),
        field("description", 3, Text),
        field("default", 4, Any),
        field("required", 5, Texts),
        field("type", 6, Text),
        field("readOnly", 7, Flag),
        field("externalDocs", 8, One(&EXTERNAL_DOCS)),
        field("example", 9, Any),
    ],
    extensions: 10,
};

static XML: Message = Message {
    fields: &[
        field("name", 1, Text),
        field("namespace", 2, Text),
        field("prefix", 3, Text),
        field("attribute", 4, Flag),
        field("wrapped", 5, Flag),
    ],
    extensions: 6,
};

/// The type and flow of each security definition, its field number, and its
/// message.
pub(super) static SECURITY: [(&str, &str, u32, &Message); 6] = [
    ("basic", "", 1, &BASIC),
    ("apiKey", "", 2, &API_KEY),
    ("oauth2", "implicit", 3, &IMPLICIT),
    ("oauth2", "password", 4, &TOKEN),
    ("oauth2", "application", 5, &TOKEN),
    ("oauth2", "accessCode", 6, &ACCESS_CODE),
];

static BASIC: Message = Message {
    fields: &[field("type", 1, Text), field("description", 2, Text)],
    extensions: 3,
};

static API_KEY: Message = Message {
    fields: &[
        field("type", 1, Text),
        field("name", 2, Text),
        field("in", 3, Text),
        field("description", 4, Text),
    ],
    extensions: 5,
};

static IMPLICIT: Message = Message {
    fields: &[
        field("type", 1, Text),
        field("flow", 2, Text),
        field("scopes", 3, Kind::TextMap),
        field("authorizationUrl", 4, Text),
        field("description", 5, Text),
    ],
    extensions: 6,
};

static TOKEN: Message = Message {
    fields: &[
        field("type", 1, Text),
        field("flow", 2, Text),
        field("scopes", 3, Kind::TextMap),
        field("tokenUrl", 4, Text),
        field("description", 5, Text),
    ],
    extensions: 6,
};

static ACCESS_CODE: Message = Message {
    fields: &[
        field("type", 1, Text),
        field("flow", 2, Text),
        field("scopes", 3, Kind::TextMap),
        field("authorizationUrl", 4, Text),
        field("tokenUrl", 5, Text),
        field("description", 6, Text),
    ],
    extensions: 7,
};

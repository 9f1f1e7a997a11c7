//! `POST /api/solve`: an experiment in, arrays out.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use sheaf_admm::{Error, ErrorKind, Result};

use super::{MAX_TIME, Shared, error_response};
use crate::arrays::Arrays;
use crate::record::{Keep, Record};
use crate::script::{Limits, Script};
use crate::subject::{Outcome, Want};

/// The body of a request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ask {
    /// The model, by its name.
    model: String,
    /// The experiment.
    script: Script,
    /// Whether the run without interventions is wanted too.
    #[serde(default)]
    compare: bool,
    /// Whether the flow of messages is wanted.
    #[serde(default)]
    flow: bool,
    /// The agent to look into.
    #[serde(default)]
    agent: Option<usize>,
}

pub(super) async fn solve(
    State(shared): State<Arc<Shared>>,
    body: std::result::Result<Bytes, BytesRejection>,
) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(rejection) => {
            let error = Error::new(
                ErrorKind::OutOfRange,
                "body",
                "a readable body of at most 1 MiB",
                rejection.body_text(),
            );
            return error_response(rejection.status(), &error);
        }
    };
    // Closed never: the semaphore lives as long as the server.
    let Ok(_permit) = shared.solves.acquire().await else {
        let error = Error::new(ErrorKind::SolverFailed, "server", "a running server", "one that ends");
        return error_response(StatusCode::SERVICE_UNAVAILABLE, &error);
    };
    let inner = shared.clone();
    let answered = tokio::task::spawn_blocking(move || answer(&inner, &body)).await;
    match answered {
        Ok(Ok(message)) => {
            (StatusCode::OK, [(header::CONTENT_TYPE, "application/octet-stream")], message).into_response()
        }
        Ok(Err(error)) => error_response(StatusCode::BAD_REQUEST, &error),
        Err(_) => {
            let error = Error::new(ErrorKind::SolverFailed, "solve", "an answer", "a defect of the program");
            error_response(StatusCode::INTERNAL_SERVER_ERROR, &error)
        }
    }
}

fn answer(shared: &Shared, body: &[u8]) -> Result<Vec<u8>> {
    let ask: Ask = serde_json::from_slice(body).map_err(|e| {
        Error::new(ErrorKind::Malformed, "request", "a model and a script", e)
            .hint("docs/explore.md describes requests")
    })?;
    let subject = shared.subjects.iter().find(|subject| subject.name() == ask.model).ok_or_else(|| {
        let known: Vec<&str> = shared.subjects.iter().map(|subject| subject.name()).collect();
        Error::new(ErrorKind::OutOfRange, "model", known.join(" or "), format!("`{}`", ask.model))
    })?;
    let began = Instant::now();
    let disturbed = !ask.script.interventions().is_empty();
    let want = Want {
        limits: Limits::REQUEST,
        compare: ask.compare && disturbed,
        keep: Keep { flow: ask.flow, states: false, agent: ask.agent },
        deadline: Some(began + MAX_TIME),
    };
    let outcome = subject.run(&ask.script, &want)?;
    message(subject.about(), outcome, want.keep, began)
}

/// The answer of the server to an experiment.
fn message(model: Value, outcome: Outcome, keep: Keep, began: Instant) -> Result<Vec<u8>> {
    let Outcome { field, run, base, comparison, detail, iterations } = outcome;
    let (geometry, sheaf) = (field.geometry(), field.sheaf());
    let tell = |record: &Record| {
        let input = record.input.last().map_or(0, |&input| usize::from(input));
        record.answer().map_or(String::new(), |answer| field.tell(input, answer))
    };
    let inputs = field.samples().len();
    let mut about = json!({
        "model": model,
        "iterations": iterations,
        "agents": sheaf.agents(),
        "height": geometry.height,
        "width": geometry.width,
        "patch": geometry.patch,
        "slots": field.slots(),
        "notes": field.notes(),
        "answer": tell(&run),
        "base_answer": base.as_ref().map(tell),
        "comparison": comparison,
        "agent": keep.agent,
    });
    let mut arrays = Arrays::default();
    let cells: Vec<u8> = (0..inputs).flat_map(|input| field.cells(input)).collect();
    arrays.bytes("cells", &[inputs, cells.len() / inputs.max(1)], cells)?;
    for input in 0..inputs {
        if let Some(label) = field.label(input) {
            arrays.bytes(&format!("label{input}"), &[label.len()], label)?;
        }
    }
    let places = geometry.agents.iter().flatten().copied().collect();
    arrays.floats("places", &[sheaf.agents(), 2], places)?;
    let ends: Vec<i32> =
        sheaf.edge_ends().flat_map(|((u, s), (v, t))| [u as i32, v as i32, s as i32, t as i32]).collect();
    arrays.integers("ends", &[sheaf.edge_count(), 4], ends)?;
    if let Some(comparison) = comparison {
        let k = comparison.distance.len();
        arrays.floats("distances", &[k, sheaf.agents()], comparison.distances)?;
    }
    arrays.extend("", run.into_arrays(sheaf, keep)?);
    if let Some(base) = base {
        arrays.extend("base_", base.into_arrays(sheaf, keep)?);
    }
    if let Some(detail) = detail {
        arrays.extend("agent_", detail);
    }
    about["seconds"] = json!(began.elapsed().as_secs_f64());
    Ok(arrays.to_message(about))
}

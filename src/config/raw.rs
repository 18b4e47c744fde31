//! What was written: YAML as a tree in which every node knows its place. Decides nothing about meaning.
//!
//! Aliases are copied in where they stand, within [`MAX_NODES`], so that a small file cannot grow into a huge tree. Merge
//! keys and tags are refused: they would let a key come from a place that the reader of the file does not see.

use super::finding::{Place, Report};
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Tag};
use std::borrow::Cow;
use std::collections::HashMap;

/// Nodes of a tree, copies by aliases included. A guess: 10,000 replicas need about half of it.
const MAX_NODES: usize = 100_000;

/// Nesting of lists and mappings; the deepest key has 7. Bounds the recursion of readers and of `Drop`.
const MAX_DEPTH: usize = 32;

/// A value and where it begins.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) value: Value,
    /// Nodes in this tree, this one included.
    size: usize,
}

/// What a node holds.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// Text; only `plain` text (without quotes) may mean a number, a flag or nothing.
    Scalar { text: String, plain: bool },
    /// Items in order.
    List(Vec<Node>),
    /// Keys and values in order; a key may be given twice here.
    Map(Vec<(Node, Node)>),
}

impl Node {
    /// A scalar that says "nothing": `~`, `null` or no text at all.
    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, plain: true } if matches!(text.as_str(), "" | "~" | "null"))
    }
}

/// Reads text that holds one YAML document. `None` after an error was reported.
pub(crate) fn parse(text: &str, report: &Report) -> Option<Node> {
    let mut tree = Tree { report, open: Vec::new(), anchors: HashMap::new(), nodes: 0, root: None };
    let fail = |(place, message): Refusal| report.error(Some(place), "", message);
    for event in Parser::new_from_str(text.strip_prefix('\u{feff}').unwrap_or(text)) {
        let step = match event {
            Ok((event, span)) => tree.take(event, place(&span.start)),
            Err(error) => Err((place(error.marker()), format!("is not YAML: {}", error.info()))),
        };
        step.map_err(fail).ok()?;
    }
    let start = Place { line: 1, column: 1 };
    let root = tree.root.filter(|root| !root.is_null());
    root.ok_or((start, "is empty: write at least `models`".to_owned())).map_err(fail).ok()
}

fn place(marker: &Marker) -> Place {
    Place { line: marker.line().max(1), column: marker.col() + 1 }
}

/// Why reading had to stop.
type Refusal = (Place, String);

/// A list or mapping whose end has not come yet.
struct Open {
    anchor: usize,
    place: Place,
    kind: Kind,
    children: Vec<Node>,
}

enum Kind {
    List,
    Map,
}

/// The tree while it grows.
struct Tree<'a> {
    report: &'a Report,
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    root: Option<Node>,
}

impl Tree<'_> {
    fn take(&mut self, event: Event<'_>, place: Place) -> Result<(), Refusal> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_tag(tag, place);
                let value = Value::Scalar { text: text.into_owned(), plain: style == ScalarStyle::Plain };
                self.add(Node { place, value, size: 1 }, anchor)
            }
            Event::SequenceStart(anchor, tag) => self.begin(Kind::List, anchor, tag, place),
            Event::MappingStart(anchor, tag) => self.begin(Kind::Map, anchor, tag, place),
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => self.copy(anchor, place),
            Event::DocumentStart(_) if self.root.is_some() => {
                Err((place, "starts a second document: a configuration is one document".to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn refuse_tag(&self, tag: Option<Cow<'_, Tag>>, place: Place) {
        if tag.is_some() {
            self.report.error(Some(place), "", "has a tag: tags such as `!!str` are not supported");
        }
    }

    fn begin(&mut self, kind: Kind, anchor: usize, tag: Option<Cow<'_, Tag>>, place: Place) -> Result<(), Refusal> {
        self.refuse_tag(tag, place);
        if self.open.len() == MAX_DEPTH {
            return Err((place, format!("is nested deeper than {MAX_DEPTH} levels")));
        }
        self.open.push(Open { anchor, place, kind, children: Vec::new() });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Refusal> {
        let Some(Open { anchor, place, kind, children }) = self.open.pop() else { return Ok(()) };
        let size = 1 + children.iter().map(|child| child.size).sum::<usize>();
        let value = match kind {
            Kind::List => Value::List(children),
            Kind::Map => Value::Map(pairs(children)),
        };
        self.add(Node { place, value, size }, anchor)
    }

    fn copy(&mut self, anchor: usize, place: Place) -> Result<(), Refusal> {
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            return Err((place, "is an alias inside its own anchor".to_owned()));
        };
        self.count(node.size, place)?;
        if self.open.len() + depth(&node) > MAX_DEPTH {
            return Err((place, format!("is nested deeper than {MAX_DEPTH} levels by an alias")));
        }
        self.attach(node);
        Ok(())
    }

    fn add(&mut self, node: Node, anchor: usize) -> Result<(), Refusal> {
        self.count(1, node.place)?;
        if anchor > 0 {
            // Anchored copies are held beside the tree, so they count as well.
            self.count(node.size, node.place)?;
            self.anchors.insert(anchor, node.clone());
        }
        self.attach(node);
        Ok(())
    }

    fn attach(&mut self, node: Node) {
        match self.open.last_mut() {
            Some(open) => open.children.push(node),
            None => self.root = Some(node),
        }
    }

    fn count(&mut self, more: usize, place: Place) -> Result<(), Refusal> {
        self.nodes += more;
        if self.nodes > MAX_NODES {
            return Err((
                place,
                format!("is too much: more than {MAX_NODES} values, those copied by aliases included"),
            ));
        }
        Ok(())
    }
}

/// Keys and values alternate among a mapping's children.
fn pairs(children: Vec<Node>) -> Vec<(Node, Node)> {
    let mut children = children.into_iter();
    std::iter::from_fn(|| children.next().zip(children.next())).collect()
}

/// Levels of lists and mappings; a scalar has none.
fn depth(node: &Node) -> usize {
    match &node.value {
        Value::Scalar { .. } => 0,
        Value::List(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Map(entries) => 1 + entries.iter().map(|(key, value)| depth(key).max(depth(value))).max().unwrap_or(0),
    }
}

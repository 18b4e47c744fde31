//! Who is served before whom: classes, and the tenants that share within one.

use crate::config::checked::Tenant;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use xxhash_rust::xxh3::xxh3_64;

/// The header by which a request names its class.
pub const PRIORITY_HEADER: &str = "x-pointsman-priority";
/// Anthropic's header for the key.
const API_KEY_HEADER: &str = "x-api-key";

/// How urgent a request is. The order is the order of service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// A person waits for it.
    Interactive,
    /// Nothing was said.
    #[default]
    Default,
    /// It may take its time.
    Batch,
}

impl Class {
    /// All of them, the most urgent first.
    pub const ALL: [Self; 3] = [Self::Interactive, Self::Default, Self::Batch];

    /// Its name in header, configuration and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Default => "default",
            Self::Batch => "batch",
        }
    }

    /// The class of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == name)
    }
}

/// Who asks, as far as fairness is concerned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Asker {
    /// The same for all requests of one tenant.
    pub tenant: u64,
    /// Its class.
    pub class: Class,
    /// Its share relative to other tenants, above 0.
    pub weight: f64,
}

/// Who asks. A tenant is known by its key; every unknown key is a tenant of its own, and so are all requests without one
/// together. A configured class is the highest that the tenant may claim.
///
/// # Errors
/// The header's value, if it is no class.
pub fn asker(headers: &HeaderMap, tenants: &[Tenant]) -> Result<Asker, String> {
    let claimed = match headers.get(PRIORITY_HEADER) {
        None => None,
        Some(value) => {
            let name = String::from_utf8_lossy(value.as_bytes());
            Some(Class::named(&name).ok_or_else(|| name.into_owned())?)
        }
    };
    let key = key(headers);
    Ok(match key.and_then(|key| tenants.iter().find(|tenant| tenant.keys.iter().any(|known| known == key))) {
        Some(tenant) => Asker {
            tenant: xxh3_64(tenant.name.as_bytes()),
            class: claimed.unwrap_or(tenant.priority).max(tenant.priority),
            weight: tenant.weight,
        },
        None => Asker {
            tenant: key.map_or(0, |key| xxh3_64(key.as_bytes())),
            class: claimed.unwrap_or_default(),
            weight: 1.0,
        },
    })
}

fn key(headers: &HeaderMap) -> Option<&str> {
    let bearer = || headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ").map(str::trim);
    headers.get(API_KEY_HEADER).and_then(|value| value.to_str().ok()).or_else(bearer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn tenants() -> Vec<Tenant> {
        vec![Tenant { name: "nightly".into(), keys: vec!["k1".into()], priority: Class::Default, weight: 2.0 }]
    }

    #[test]
    fn a_class_is_claimed_by_header_and_a_tenant_cannot_climb_above_its_own() {
        for (header, class) in [("interactive", Class::Default), ("batch", Class::Batch)] {
            let headers = headers(&[("authorization", "Bearer k1"), (PRIORITY_HEADER, header)]);
            let asker = asker(&headers, &tenants()).unwrap();
            assert_eq!((asker.class, asker.weight), (class, 2.0), "{header}");
        }
        let free = asker(&headers(&[(PRIORITY_HEADER, "interactive")]), &tenants()).unwrap();
        assert_eq!((free.class, free.tenant), (Class::Interactive, 0));
        assert_eq!(asker(&headers(&[(PRIORITY_HEADER, "urgent")]), &[]), Err("urgent".to_owned()));
    }

    #[test]
    fn each_key_is_a_tenant_of_its_own() {
        let of = |key| asker(&headers(&[("x-api-key", key)]), &tenants()).unwrap().tenant;
        assert_eq!(of("a"), of("a"));
        assert_ne!(of("a"), of("b"));
    }
}

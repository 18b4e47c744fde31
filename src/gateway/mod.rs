//! What happens to one request, phase by phase. The only room that knows Pingora's `ProxyHttp`.

// Package statuspage serves what an lnetd does at this moment to people with a web browser, and whether it is alive and
// ready to orchestrators. The page has tables of NIs, peers, routes and clients, findings with remedies, rates of the
// last minutes and a picture of the topology. It is read-only, needs neither scripts nor other hosts, and escapes all
// names, because peers and clients choose them.
//
// internal/lnetd/daemon calls the package: New makes a Page whose ServeHTTP answers requests, and Run samples counters
// until its context is done. However many requests arrive, the page is made at most once a second. A page of
// the list of all peers is made for each request. The size of both is bounded. Health serves /healthz and /readyz
// without a Page. The package starts no goroutines.
package statuspage

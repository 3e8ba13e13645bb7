package metrics

var (
	selftestEnabled  = gaugeFamily("lnet_selftest_enabled", "1 if LNet selftest is enabled on the node, otherwise 0.")
	selftestSessions = gaugeFamily("lnet_selftest_sessions", "Sessions of LNet selftest that the node takes part in, by role: node, console.", "role")
	selftestTests    = gaugeFamily("lnet_selftest_tests", "Tests of the session, by the role of the node: client, server.", "role")
	selftestUnits    = gaugeFamily("lnet_selftest_active_units", "Running units of tests.")
	selftestErrors   = gaugeFamily("lnet_selftest_errors", "Errors of the session's tests.", "test")
	selftestRPCs     = counterFamily("lnet_selftest_rpcs_total", "RPCs of LNet selftest: requests sent, requests received, RPCs that ended without a reply, RPCs that timed out, events with an error.", "result")
	selftestBytes    = counterFamily("lnet_selftest_bulk_bytes_total", "Bulk data that this node has moved for LNet selftest: get for data that it fetched, put for data that it sent.", "direction")
)

func collectSelftest(p *page, s Selftest) {
	p.set(selftestEnabled, bit(s.Enabled))
	p.set(selftestSessions, bit(s.Node), "node")
	p.set(selftestSessions, bit(s.Console), "console")
	p.set(selftestTests, float64(s.Clients), "client")
	p.set(selftestTests, float64(s.Servers), "server")
	p.set(selftestUnits, float64(s.Units))
	p.set(selftestErrors, float64(s.BRWErrors), "brw")
	p.set(selftestErrors, float64(s.PingErrors), "ping")
	r := &s.RPCs
	p.set(selftestRPCs, float64(r.Sent), "sent")
	p.set(selftestRPCs, float64(r.Received), "received")
	p.set(selftestRPCs, float64(r.Dropped), "dropped")
	p.set(selftestRPCs, float64(r.Expired), "expired")
	p.set(selftestRPCs, float64(r.Errors), "failed")
	p.count(selftestBytes, r.BulkGet, "get")
	p.count(selftestBytes, r.BulkPut, "put")
}

package metrics

var (
	selftestEnabled  = gaugeFamily("lnet_selftest_enabled", "1 while the node serves LNet selftest.")
	selftestSessions = gaugeFamily("lnet_selftest_sessions", "Sessions that the node is in, by what it is there: node, console.", "role")
	selftestTests    = gaugeFamily("lnet_selftest_tests", "Tests of the session, by what the node is in them: client, server.", "role")
	selftestUnits    = gaugeFamily("lnet_selftest_active_units", "Units of tests that run.")
	selftestErrors   = gaugeFamily("lnet_selftest_errors", "Errors of the session's tests.", "test")
	selftestRPCs     = counterFamily("lnet_selftest_rpcs_total", "RPCs of LNet selftest: requests sent and received, RPCs that ended without a reply, that timed out, and events with an error.", "result")
	selftestBytes    = counterFamily("lnet_selftest_bulk_bytes_total", "Bulk data of LNet selftest, moved as the server of it: get is what was fetched, put what was sent.", "direction")
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

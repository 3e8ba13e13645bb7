package modparam

import "github.com/lnetd/lnetd/lnet"

// A parameter is a module parameter that lnetd has.
type parameter struct {
	// section is one of sections.
	section, key string
	// read validates a value and returns it as written in the document. Nil means wholeNumber.
	read func(value string) (string, error)
}

// modules holds the module parameters that lnetd has, by module (lnetctl 13.4).
var modules = map[string]map[string]parameter{
	"lnet": {
		"tiny_router_buffers":  {"buffers", "tiny", pool},
		"small_router_buffers": {"buffers", "small", pool},
		"large_router_buffers": {"buffers", "large", pool},

		"lnet_drop_asym_route":            {"global", "drop_asym_route", truth},
		"lnet_health_sensitivity":         {section: "global", key: "health_sensitivity"},
		"lnet_interfaces_max":             {section: "global", key: "max_interfaces"},
		"lnet_max_recovery_ping_interval": {section: "global", key: "max_recovery_ping_interval"},
		"lnet_numa_range":                 {section: "global", key: "numa_range"},
		"lnet_peer_discovery_disabled":    {"global", "discovery", not},
		"lnet_recovery_interval":          {section: "global", key: "recovery_interval"},
		"lnet_recovery_limit":             {section: "global", key: "recovery_limit"},
		"lnet_response_tracking":          {section: "global", key: "response_tracking"},
		"lnet_retry_count":                {section: "global", key: "retry_count"},
		"lnet_transaction_timeout":        {section: "global", key: "transaction_timeout"},

		"networks": {"lnetd", "networks", checked(lnet.ParseNetworks)},
		"ip2nets":  {"lnetd", "ip2nets", checked(lnet.ParseIP2Nets)},
		"routes":   {"lnetd", "routes", checked(lnet.ParseRoutes)},

		"accept":                        {"lnetd", "accept", word("secure", "all", "none")},
		"accept_port":                   {section: "lnetd", key: "port"},
		"alive_router_check_interval":   {section: "lnetd", key: "alive_router_check_interval"},
		"auto_down":                     {"lnetd", "auto_down", truth},
		"avoid_asym_router_failure":     {"lnetd", "avoid_asym_router_failure", truth},
		"check_routers_before_use":      {"lnetd", "check_routers_before_use", truth},
		"dead_router_check_interval":    {section: "lnetd", key: "dead_router_check_interval"},
		"forwarding":                    {"lnetd", "forwarding", word("enabled", "disabled")},
		"live_router_check_interval":    {section: "lnetd", key: "live_router_check_interval"},
		"peer_buffer_credits":           {section: "lnetd", key: "peer_buffer_credits"},
		"router_ping_timeout":           {section: "lnetd", key: "router_ping_timeout"},
		"router_sensitivity_percentage": {section: "lnetd", key: "router_sensitivity_percentage"},

		"accept_port_bulk": {section: "lnetd/socklnd", key: "accept_port_bulk"},
		"accept_backlog":   {section: "lnetd/socklnd", key: "accept_backlog"},
		"accept_timeout":   {section: "lnetd/socklnd", key: "accept_timeout"},
	},
	"ksocklnd":      ofSocklnd(),
	"ko2iblnd":      ofO2iblnd(),
	"lnet_selftest": ofSelftest(),
}

// useless holds the parameters of these modules that have no use in lnetd.
var useless = map[string][]string{
	"lnet": {"config_on_load", "local_nid_dist_zero", "lock_prim_nid", "portal_rotor", "rnet_htable_size", "use_tcp_bonding"},
	"ksocklnd": {
		"enable_irq_affinity", "inject_csum_error", "nconnds", "nconnds_max", "nscheds", "skip_mr_route_setup", "zc_min_payload", "zc_recv", "zc_recv_min_nfrags",
	},
	"ko2iblnd": {"dev_failover", "ib_mtu", "ipif_name", "nscheds", "use_fastreg_gaps"},
}

// lustre holds other modules whose settings a site may miss, with what to do instead.
var lustre = map[string]string{
	"kgnilnd": "", "kkfilnd": "", "libcfs": "",
	// An alias for nodes with Omni-Path hardware, in a file that Lustre installs everywhere.
	"ko2iblnd_opa": "to set it for nets of type o2ib here, write 'options ko2iblnd ...': did you mean that?",
}

func ofSocklnd() map[string]parameter {
	all := map[string]parameter{
		"enable_csum": {read: truth}, "nagle": {read: truth}, "nonblk_zcack": {read: truth},
		"round_robin": {read: truth}, "typed_conns": {read: truth},
	}
	for _, name := range []string{
		"conns_per_peer", "credits", "eager_ack", "keepalive", "keepalive_count", "keepalive_idle", "keepalive_intvl",
		"max_reconnectms", "min_bulk", "min_reconnectms", "peer_buffer_credits", "peer_credits", "peer_timeout",
		"rx_buffer_size", "sock_timeout", "tos", "tx_buffer_size",
	} {
		all[name] = parameter{}
	}
	return inSection("lnetd/socklnd", all)
}

func ofO2iblnd() map[string]parameter {
	all := map[string]parameter{"require_privileged_port": {read: truth}, "use_privileged_port": {read: truth}}
	for _, name := range []string{
		"cksum", "concurrent_sends", "conns_per_peer", "credits", "fmr_cache", "fmr_flush_trigger", "fmr_pool_size", "keepalive",
		"map_on_demand", "ntx", "peer_buffer_credits", "peer_credits", "peer_credits_hiw", "peer_timeout", "retry_count",
		"rnr_retry_count", "service", "timeout", "tos", "wrq_sge",
	} {
		all[name] = parameter{}
	}
	return inSection("lnetd/o2iblnd", all)
}

// inSection adds the section and the key, which is the parameter's name.
func inSection(section string, all map[string]parameter) map[string]parameter {
	for name, p := range all {
		p.section, p.key = section, name
		all[name] = p
	}
	return all
}

func ofSelftest() map[string]parameter {
	all := map[string]parameter{}
	for _, name := range []string{
		"brw_inject_errors", "brw_srv_workitems", "ping_srv_workitems", "rpc_timeout", "session_timeout",
	} {
		all[name] = parameter{}
	}
	return inSection("lnetd/selftest", all)
}

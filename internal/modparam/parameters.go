package modparam

import "github.com/lnetd/lnetd/lnet"

// modules are the modules of which lnetd has parameters, and these (lnetctl 13.4).
var modules = map[string]map[string]parameter{
	"lnet": {
		"tiny_router_buffers":  {section: "buffers", key: "tiny"},
		"small_router_buffers": {section: "buffers", key: "small"},
		"large_router_buffers": {section: "buffers", key: "large"},

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
	"lnet_selftest": ofSelftest(),
}

// lustre are other modules of which a site may set something that it would miss.
var lustre = map[string]bool{"ko2iblnd": true, "kgnilnd": true, "kkfilnd": true, "libcfs": true}

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
	for name, p := range all {
		p.section, p.key = "lnetd/socklnd", name
		all[name] = p
	}
	return all
}

func ofSelftest() map[string]parameter {
	all := map[string]parameter{}
	for _, name := range []string{
		"brw_inject_errors", "brw_srv_workitems", "ping_srv_workitems", "rpc_timeout", "session_timeout",
	} {
		all[name] = parameter{section: "lnetd/selftest", key: name}
	}
	return all
}

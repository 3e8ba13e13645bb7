package api

// remedies tell the operator what to do about an error with a code, if the error has no remedy of its own.
var remedies = map[Code]string{
	CodeConfigInvalid:     `"lnetd --check --config FILE" lists all errors of a file, and "lnetd --print-reference-config" all keys`,
	CodeConfigUnreadable:  "check that the file exists, and that the user of lnetd may read it",
	CodeSocketInUse:       `stop the other lnetd, or give this one another path with --control-socket`,
	CodeSocketUnusable:    "check that the directory of the socket exists, and that the user of lnetd may write to it",
	CodePortInUse:         `"ss -ltnp" shows the process that has the port; stop it, or give lnetd another port with --port`,
	CodePortForbidden:     "run lnetd as root or with CAP_NET_BIND_SERVICE, as its service does",
	CodeClientsSocket:     "check that the directory of the socket exists, that the user of lnetd may write to it, and that no other lnetd uses it",
	CodeInheritedSocket:   `check the socket units of lnetd: "systemctl status 'lnetd*'"`,
	CodeInterface:         `"ip -brief address" shows the interfaces of this host, and "lnetdctl doctor" what is wrong with them`,
	CodeDaemonUnreachable: `"lnetdctl doctor" finds out why lnetd does not answer`,
	CodeFileUnwritable:    "give another file, or check the directory and its free space",

	CodeRequestInvalid:   `"lnetdctl help COMMAND" explains a command`,
	CodeNetUnknown:       "give a net such as tcp, tcp1 or o2ib",
	CodeNetAbsent:        `"lnetdctl net show" lists the nets of this node`,
	CodeNIUnknown:        `"lnetdctl net show" lists the NIs of this node`,
	CodeNetworkDown:      `"lnetdctl lnet configure" configures LNet`,
	CodeLNetBusy:         `end the programs that use LNet: "lnetdctl clients" and "lnetdctl lst show_session" list them`,
	CodeNetRefused:       `"lnetdctl net show -v" shows the NIs of this node, and "lnetdctl doctor" what is wrong with them`,
	CodeRestartNeeded:    "restart lnetd",
	CodePingFailed:       `"lnetdctl doctor NID" finds out why a node does not answer`,
	CodeDiscoverFailed:   `"lnetdctl doctor NID" finds out why a node does not answer`,
	CodePeerUnknown:      `"lnetdctl peer list" lists the peers; "lnetdctl discover NID" adds one`,
	CodePeerRefused:      `"lnetdctl peer show -v 3" shows the peers with their NIDs`,
	CodeRouteUnknown:     `"lnetdctl route show" lists the routes`,
	CodeRouteRefused:     `"lnetdctl route show" lists the routes, and "lnetdctl net show" the nets that gateways may be on`,
	CodeRoutingRefused:   `"lnetdctl routing show" shows the state; try again when routing has stopped`,
	CodeParameterInvalid: `"lnetdctl help set" lists the parameters with their ranges; "lnetdctl global show" shows their values`,
	CodeRuleInvalid:      `"lnetdctl help udsp add", "selection net add" or "fault drop add" explain rules`,
	CodeRuleExists:       `"lnetdctl udsp show" and "lnetdctl selection net show" list the policies`,
	CodeRuleUnknown:      `"lnetdctl udsp show", "lnetdctl selection net show" and "lnetdctl fault drop show" list the rules`,
	CodeLstDisabled:      `"lnetdctl lst enable" enables selftest on this node`,
	CodeLstNoSession:     `"lnetdctl lst new_session" creates a session`,
	CodeLstKey:           `set LST_SESSION as when the session was created; "lnetdctl lst show_session" shows the session`,
	CodeLstUnknown:       `"lnetdctl lst list_group" and "lnetdctl lst list_batch" list what exists`,
	CodeLstExists:        `choose another name, or delete the old one; "lnetdctl lst new_session --force" replaces a session`,
	CodeLstInvalid:       `"lnetdctl help lst COMMAND" explains a command`,
	CodeLstBusy:          `"lnetdctl lst stop BATCH" stops a batch, and "lnetdctl lst end_session" ends the session`,
	CodeLstNotActive:     `"lnetdctl lst update_group --refresh NAME" invites the nodes again; "lnetdctl ping" shows whether they answer`,
	CodeLstRefused:       `"lnetdctl lst show_session" shows the session; the log of lnetd may say more`,
	CodeClientUnknown:    `"lnetdctl clients" lists the clients with their numbers`,
	CodeForbidden:        "run the command as root or as the user of lnetd",
	CodeStopping:         "lnetd is stopping; try again when it runs again",
	CodeBusy:             "too many requests are under way; try again",
	CodeInternal:         `"lnetdctl doctor" shows the state of the node; if lnetd does not answer properly, report this with its log`,
}

// WithRemedy returns f if it has a remedy. Otherwise it returns a copy of f with the remedy for its code. A fault with
// problems has the remedies of these.
func (f *Fault) WithRemedy() *Fault {
	if f.Remedy != "" || len(f.Problems) > 0 {
		return f
	}
	advised := *f
	advised.Remedy = remedies[f.Code]
	return &advised
}

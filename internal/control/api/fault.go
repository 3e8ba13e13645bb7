package api

import (
	"errors"
	"strings"
)

// Code names a kind of failure for good: scripts and runbooks may rely on it.
type Code string

// Codes of why lnetd does not start, and lnetdctl finds none.
const (
	CodeConfigInvalid     Code = "config-invalid"      // the configuration says something impossible
	CodeConfigUnreadable  Code = "config-unreadable"   // the configuration file cannot be read
	CodeSocketInUse       Code = "control-socket-used" // another process answers on the control socket
	CodeSocketUnusable    Code = "control-socket-path" // the control socket's path cannot be used
	CodePortInUse         Code = "port-used"           // another process listens on the port
	CodePortForbidden     Code = "port-forbidden"      // no right to listen on the port
	CodeClientsSocket     Code = "clients-socket"      // the socket for transfer machines of other processes cannot be used
	CodeInheritedSocket   Code = "inherited-socket"    // a socket that systemd has made cannot be used
	CodeInterface         Code = "interface"           // an NI cannot be brought up
	CodeDaemonUnreachable Code = "daemon-unreachable"  // lnetdctl finds no lnetd
)

// Codes of refused requests.
const (
	CodeRequestInvalid   Code = "request-invalid"   // a request makes no sense
	CodeNetUnknown       Code = "net-unknown"       // not the name of a net
	CodeNetAbsent        Code = "net-absent"        // the node has no NI on the net
	CodeNIUnknown        Code = "ni-unknown"        // the node has no NI with the NID
	CodeNetworkDown      Code = "network-down"      // LNet is not configured
	CodeLNetBusy         Code = "lnet-busy"         // LNet is in use, and cannot be unconfigured
	CodeNetRefused       Code = "net-refused"       // NIs cannot be added, changed or removed that way
	CodeRestartNeeded    Code = "restart-needed"    // a change takes a restart of lnetd
	CodePingFailed       Code = "ping-failed"       // a node did not answer
	CodeDiscoverFailed   Code = "discover-failed"   // a node could not be discovered
	CodePeerUnknown      Code = "peer-unknown"      // no peer has the NID
	CodePeerRefused      Code = "peer-refused"      // a peer cannot be changed that way
	CodeRouteUnknown     Code = "route-unknown"     // there is no such route
	CodeRouteRefused     Code = "route-refused"     // a route cannot be added
	CodeRoutingRefused   Code = "routing-refused"   // forwarding cannot be changed now
	CodeParameterInvalid Code = "parameter-invalid" // a parameter cannot have the value
	CodeRuleInvalid      Code = "rule-invalid"      // a policy or fault rule makes no sense
	CodeRuleExists       Code = "rule-exists"       // there is such a policy already
	CodeRuleUnknown      Code = "rule-unknown"      // there is no such policy or fault rule
	CodeLstDisabled      Code = "lst-disabled"      // the node does not take part in selftest
	CodeLstNoSession     Code = "lst-no-session"    // there is no session, or it is ending
	CodeLstKey           Code = "lst-key"           // the session has another key
	CodeLstUnknown       Code = "lst-unknown"       // there is no such group, batch or test
	CodeLstExists        Code = "lst-exists"        // there is such a session, group or batch already
	CodeLstInvalid       Code = "lst-invalid"       // a command of lst makes no sense, or is a hazard
	CodeLstBusy          Code = "lst-busy"          // a session, group or batch is in use
	CodeLstNotActive     Code = "lst-not-active"    // nodes are not active
	CodeLstRefused       Code = "lst-refused"       // a command of lst failed otherwise
	CodeClientUnknown    Code = "client-unknown"    // lnetd hosts nobody of that number
	CodeForbidden        Code = "forbidden"         // the request is for other users
	CodeStopping         Code = "stopping"          // lnetd is going down
	CodeBusy             Code = "busy"              // too many requests at once
	CodeInternal         Code = "internal"          // a defect in lnetd
)

// Fault is an error for an operator: what happened, why, and what helps.
type Fault struct {
	Code Code `json:"code"`
	// Errno is the negative Linux error number that lnetctl would print;
	// 0 if there is none.
	Errno int `json:"errno,omitempty"`
	// Text says what happened, in lnetctl's words where it has some.
	Text string `json:"text"`
	// Subject is the name of what is concerned, where a client puts that into
	// words of its own.
	Subject string `json:"subject,omitempty"`
	// Cause says why, as far as it is known.
	Cause string `json:"cause,omitempty"`
	// Remedy says what the operator can do.
	Remedy string `json:"remedy,omitempty"`
	// SeqNo is the number that a document's author has given to the block that failed, if any.
	SeqNo *int64 `json:"seq_no,omitempty"`
	// Problems are all that is wrong in a configuration, in its order.
	Problems []Problem `json:"problems,omitempty"`

	err error
}

// Because returns f with err as its cause, which errors.Is and errors.As then
// find.
func (f Fault) Because(err error) *Fault {
	f.err = err
	if f.Cause == "" && err != nil {
		f.Cause = err.Error()
	}
	return &f
}

// Error returns all of f on one line.
func (f *Fault) Error() string {
	var b strings.Builder
	b.WriteString(f.Text)
	if f.Cause != "" && f.Cause != f.Text {
		b.WriteString(": ")
		b.WriteString(f.Cause)
	}
	b.WriteString(" [")
	b.WriteString(string(f.Code))
	b.WriteString("]")
	if f.Remedy != "" {
		b.WriteString("; ")
		b.WriteString(f.Remedy)
	}
	return b.String()
}

func (f *Fault) Unwrap() error { return f.err }

// Report returns f over several lines, for a terminal.
func (f *Fault) Report() string {
	var b strings.Builder
	b.WriteString(f.Text + " [" + string(f.Code) + "]\n")
	if f.Cause != "" && f.Cause != f.Text {
		b.WriteString("  cause:  " + indentMore(f.Cause) + "\n")
	}
	if f.Remedy != "" {
		b.WriteString("  remedy: " + indentMore(f.Remedy) + "\n")
	}
	return b.String()
}

func indentMore(s string) string { return strings.ReplaceAll(s, "\n", "\n          ") }

// FaultOf returns the Fault in err's chain, or one of CodeInternal around err.
func FaultOf(err error) *Fault {
	var f *Fault
	if errors.As(err, &f) {
		return f
	}
	return Fault{Code: CodeInternal, Errno: -int(Errno(err)), Text: "internal error"}.Because(err)
}

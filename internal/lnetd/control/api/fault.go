package api

import (
	"errors"
	"strings"
)

// Code identifies a kind of failure. Codes do not change between releases, so that scripts and
// instructions for operators can rely on them.
type Code string

// Codes for errors of starting lnetd, and of lnetdctl.
const (
	CodeConfigInvalid     Code = "config-invalid"      // the configuration is invalid
	CodeConfigUnreadable  Code = "config-unreadable"   // the configuration file cannot be read
	CodeSocketInUse       Code = "control-socket-used" // another process answers on the control socket
	CodeSocketUnusable    Code = "control-socket-path" // the control socket's path cannot be used
	CodePortInUse         Code = "port-used"           // another process listens on the port
	CodePortForbidden     Code = "port-forbidden"      // the process lacks the privilege to listen on the port
	CodeClientsSocket     Code = "clients-socket"      // the socket for transfer machines of other processes, or for proxies, cannot be used
	CodeInheritedSocket   Code = "inherited-socket"    // a socket passed by systemd cannot be used
	CodeInterface         Code = "interface"           // an NI cannot be brought up
	CodeDaemonUnreachable Code = "daemon-unreachable"  // lnetdctl cannot connect to lnetd
	CodeFileUnwritable    Code = "file-unwritable"     // lnetdctl cannot write a file
)

// Codes for rejected requests.
const (
	CodeRequestInvalid   Code = "request-invalid"   // a request is invalid
	CodeNetUnknown       Code = "net-unknown"       // the name is not a net
	CodeNetAbsent        Code = "net-absent"        // the node has no NI on the net
	CodeNIUnknown        Code = "ni-unknown"        // the node has no NI with the NID
	CodeNetworkDown      Code = "network-down"      // LNet is not configured
	CodeLNetBusy         Code = "lnet-busy"         // LNet is in use and cannot be unconfigured
	CodeNetRefused       Code = "net-refused"       // NIs cannot be added, changed or removed as requested
	CodeRestartNeeded    Code = "restart-needed"    // the change requires a restart of lnetd
	CodePingFailed       Code = "ping-failed"       // a node did not answer
	CodeDiscoverFailed   Code = "discover-failed"   // a node could not be discovered
	CodePeerUnknown      Code = "peer-unknown"      // no peer has the NID
	CodePeerRefused      Code = "peer-refused"      // the peer cannot be changed as requested
	CodeRouteUnknown     Code = "route-unknown"     // no such route
	CodeRouteRefused     Code = "route-refused"     // a route cannot be added
	CodeRoutingRefused   Code = "routing-refused"   // forwarding cannot be changed now
	CodeParameterInvalid Code = "parameter-invalid" // a parameter cannot have the value
	CodeRuleInvalid      Code = "rule-invalid"      // a policy or fault rule is invalid
	CodeRuleExists       Code = "rule-exists"       // the policy exists already
	CodeRuleUnknown      Code = "rule-unknown"      // no such policy or fault rule
	CodeLstDisabled      Code = "lst-disabled"      // the node does not take part in selftest
	CodeLstNoSession     Code = "lst-no-session"    // no session, or the session is ending
	CodeLstKey           Code = "lst-key"           // the session has another key
	CodeLstUnknown       Code = "lst-unknown"       // no such group, batch or test
	CodeLstExists        Code = "lst-exists"        // the session, group or batch exists already
	CodeLstInvalid       Code = "lst-invalid"       // a command of lst is invalid or dangerous
	CodeLstBusy          Code = "lst-busy"          // a session, group or batch is in use
	CodeLstNotActive     Code = "lst-not-active"    // nodes are not active
	CodeLstRefused       Code = "lst-refused"       // a command of lst failed otherwise
	CodeClientUnknown    Code = "client-unknown"    // lnetd hosts no client with the ID
	CodeForbidden        Code = "forbidden"         // the user is not allowed to make the request
	CodeStopping         Code = "stopping"          // lnetd is stopping
	CodeBusy             Code = "busy"              // too many requests at once
	CodeInternal         Code = "internal"          // a bug in lnetd
)

// Fault is an error for an operator. It says what happened, why, and what to do about it.
type Fault struct {
	Code Code `json:"code"`
	// Errno is the negative Linux error number that lnetctl would print;
	// 0 means no error number.
	Errno int `json:"errno,omitempty"`
	// Text states what happened, in lnetctl's wording where lnetctl has one.
	Text string `json:"text"`
	// Subject is the name of the object that the error is about, for clients that make their own
	// message.
	Subject string `json:"subject,omitempty"`
	// Cause is the reason, if it is known.
	Cause string `json:"cause,omitempty"`
	// Remedy is what the operator can do.
	Remedy string `json:"remedy,omitempty"`
	// SeqNo is the sequence number of the block of a document that has the error. It is nil if the
	// document does not give one.
	SeqNo *int64 `json:"seq_no,omitempty"`
	// Problems are all errors and warnings about a configuration, ordered by position.
	Problems []Problem `json:"problems,omitempty"`

	err error
}

// Because returns a copy of f that wraps err, so that errors.Is and errors.As find err. If f has no Cause,
// the copy has the text of err as its Cause.
func (f Fault) Because(err error) *Fault {
	f.err = err
	if f.Cause == "" && err != nil {
		f.Cause = err.Error()
	}
	return &f
}

// Error returns the text, the cause, the code and the remedy as one line.
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

// Report returns the text, the code, the cause and the remedy as several lines, for a terminal.
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

// FaultOf returns the Fault that err is or wraps. If err does not contain a Fault, FaultOf returns a new one
// with CodeInternal that wraps err.
func FaultOf(err error) *Fault {
	var f *Fault
	if errors.As(err, &f) {
		return f
	}
	return Fault{Code: CodeInternal, Errno: -int(Errno(err)), Text: "internal error"}.Because(err)
}

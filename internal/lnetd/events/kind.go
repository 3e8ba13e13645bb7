package events

import (
	"strings"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnd/boundedlog"
)

// kindsByText has the kinds of events by their text, or by the beginning of the text, for events whose subject does
// not show their kind.
var kindsByText = []struct{ begin, kind string }{
	{"NI is healthy again", api.EventHealth},
	{"NI has lost health", api.EventHealth},
	{"peer NI is healthy again", api.EventHealth},
	{"peer NI has lost health", api.EventHealth},
	{"gateway ", api.EventGateway},
	{"NI ", api.EventNI},
	{"the order of NIs", api.EventNI},
	{"no NI is up", api.EventNI},
	{"no nets are configured", api.EventNI},
	{"link ", api.EventNI},
	{"waiting for an interface", api.EventNI},
	{"cannot add the NIs", api.EventNI},
	{"cannot wait for an interface", api.EventNI},
	{"an ip2nets entry", api.EventNI},
	{"no ip2nets rule", api.EventNI},
	{"network devices cannot be read", api.EventNI},
	{"the kernel does not report changes of interfaces", api.EventNI},
	{"RDMA device ", api.EventNI},
	{"cannot read events of an RDMA device", api.EventNI},
	{"cannot close an RDMA device", api.EventNI},
	{"ignoring a configured peer", api.EventPeer},
	{"ignoring NIDs of a configured peer", api.EventPeer},
	{"too many NIDs of unconfigured peers", api.EventPeer},
	{"cannot accept a connection of a peer", api.EventConnection},
	{"cannot read events of the RDMA connection manager", api.EventConnection},
	{"cannot close the event channel of the RDMA connection manager", api.EventConnection},
	{"cannot read a completion queue", api.EventConnection},
	{"a completion queue ", api.EventConnection},
	{"kernel nodes cannot connect", api.EventConnection},
	{"this node cannot connect", api.EventConnection},
	{"to connect with all kernel nodes", api.EventConnection},
	{"no permission to listen", api.EventConnection},
	{"no permission to use privileged ports", api.EventConnection},
	{"cannot accept a client", api.EventClient},
	{"cannot identify a client", api.EventClient},
	{"accepting programs", api.EventClient},
	{"transfer machine statistics", api.EventClient},
	{"cannot accept a proxy", api.EventProxy},
	{"accepting proxies", api.EventProxy},
	{"route ", api.EventRoute},
	{"routes added", api.EventRoute},
	{"a route has one hop", api.EventRoute},
	{"ignoring a route", api.EventRoute},
	{"a deleted route", api.EventRoute},
	{"a failed change of routes", api.EventRoute},
	{"fewer router buffers", api.EventRouting},
	{"routing ", api.EventRouting},
	{"this node is ", api.EventRouting},
	{"peers configured", api.EventPeer},
	{"configuration ", api.EventConfiguration},
	{"reload failed", api.EventConfiguration},
	{"a step of a failed change", api.EventConfiguration},
	{"web_config warning", api.EventConfiguration},
	{"metrics requests are refused until", api.EventConfiguration},
	{"some changes of the configuration", api.EventConfiguration},
	{"the configuration file", api.EventConfiguration},
	{"selection policies replaced", api.EventConfiguration},
	{"new client rules", api.EventConfiguration},
	{"new rules apply to proxies", api.EventConfiguration},
	{"LNet is ", api.EventConfiguration},
	{"LNet selftest ", api.EventSelftest},
	{"selftest: ", api.EventSelftest},
	{"log level changed", api.EventLog},
	{"log budget used up", api.EventLog},
}

// kindsByCause has the kinds of events that the log connects by a cause.
var kindsByCause = map[string]string{
	"connections": api.EventConnection,
	"gateway":     api.EventGateway,
}

// kindsBySubject has the kinds of events by the kind of their subject.
var kindsBySubject = map[string]string{
	"ni":       api.EventNI,
	"peer":     api.EventPeer,
	"caller":   api.EventConnection,
	"listener": api.EventConnection,
	"pid":      api.EventClient,
	"proxy":    api.EventProxy,
	"request":  api.EventConfiguration,
}

// kindsByRequest has the kinds of changes that control requests make, by the path of the request.
var kindsByRequest = []struct{ path, kind string }{
	{"/v1/faults", api.EventFault},
	{"/v1/routes", api.EventRoute},
	{"/v1/routing", api.EventRouting},
}

// KindOf returns the kind of an event, one of api.EventKinds.
func KindOf(l *boundedlog.Line) string {
	if l.Of.Kind() == "request" {
		for _, r := range kindsByRequest {
			if strings.Contains(l.Of.String(), r.path) {
				return r.kind
			}
		}
	}
	if kind, ok := kindsByCause[l.Cause]; ok {
		return kind
	}
	for _, t := range kindsByText {
		if strings.HasPrefix(l.Text, t.begin) {
			return t.kind
		}
	}
	if kind, ok := kindsBySubject[l.Of.Kind()]; ok {
		return kind
	}
	return api.EventLnetd
}

package api

import "time"

// Event is a change of state of the node: a line of the reply to GET /v1/events.
type Event struct {
	// Number counts the events since lnetd started, from 1. It is 0 in a line that reports lost events.
	Number uint64    `json:"number,omitempty"`
	Time   time.Time `json:"time"`
	// Kind is one of EventKinds, or EventLost.
	Kind string `json:"kind"`
	// Level is the level of the event in the log: info, warn or error.
	Level string `json:"level"`
	// Subject is what the event is about: a NID, an address, a process, or a request. It is empty for the node
	// itself.
	Subject string `json:"subject,omitempty"`
	// Text is the message of the log for this event, or the text of an event that is not logged. It is constant for
	// one sort of event.
	Text string `json:"text"`
	// Details are the attributes of the message by name.
	Details map[string]string `json:"details,omitempty"`
	// Lost, in a line of the kind EventLost, is the number of events that are missing at this place.
	Lost uint64 `json:"lost,omitempty"`
}

// EventLost is the kind of a line that reports events which the reader does not get, because lnetd keeps only the
// latest of each kind.
const EventLost = "lost"

// Kinds of events.
const (
	EventNI            = "ni"            // NIs that are added, removed, or whose link goes down or comes up; interfaces and devices
	EventHealth        = "health"        // NIs and peer NIs that lose health or are healthy again
	EventPeer          = "peer"          // peers that are discovered, change, restart or are removed
	EventConnection    = "connection"    // connections with peers that are lost, refused or fail
	EventGateway       = "gateway"       // gateways that do not answer, or answer again
	EventRoute         = "route"         // routes that are added, removed, or become usable or unusable
	EventRouting       = "routing"       // this node as a router
	EventClient        = "client"        // programs that use transfer machines of lnetd
	EventProxy         = "proxy"         // processes that serve nets
	EventConfiguration = "configuration" // changes of the configuration, and reloads
	EventFault         = "fault"         // changes of fault rules
	EventSelftest      = "selftest"      // LNet selftest on this node
	EventLog           = "log"           // the log: its level, and lines for which it has no room
	EventLnetd         = "lnetd"         // lnetd itself, and everything else
)

// EventKinds returns the kinds of events.
func EventKinds() []string {
	return []string{
		EventNI, EventHealth, EventPeer, EventConnection, EventGateway, EventRoute, EventRouting, EventClient,
		EventProxy, EventConfiguration, EventFault, EventSelftest, EventLog, EventLnetd,
	}
}

// EventFilter selects events.
type EventFilter struct {
	// Since, if not zero, leaves out older events.
	Since time.Time
	// Kinds are the kinds to include. If it is empty, all are included.
	Kinds []string
	// Follow makes the stream wait for further events, until the client disconnects.
	Follow bool
}

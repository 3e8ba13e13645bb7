package message

import "fmt"

// Portals of selftest (selftest 1).
const (
	TestPortal      = 50 // requests to test services
	FrameworkPortal = 51 // requests to framework services
	ReplyPortal     = 52 // replies and bulk
)

// Service is what a request asks for; it is the request's match bits
// (selftest 2.3).
type Service uint32

// The services; those from ServiceBRW on are test services.
const (
	ServiceDebug         Service = 0
	ServiceMakeSession   Service = 1
	ServiceRemoveSession Service = 2
	ServiceBatch         Service = 3
	ServiceTest          Service = 4
	ServiceStat          Service = 5
	ServiceJoin          Service = 6
	ServiceBRW           Service = 11
	ServicePing          Service = 12
)

var services = map[Service]struct {
	name    string
	request Type
}{
	ServiceDebug:         {"debug", TypeDebugRequest},
	ServiceMakeSession:   {"make session", TypeMakeSessionRequest},
	ServiceRemoveSession: {"remove session", TypeRemoveSessionRequest},
	ServiceBatch:         {"batch", TypeBatchRequest},
	ServiceTest:          {"test", TypeTestRequest},
	ServiceStat:          {"stat", TypeStatRequest},
	ServiceJoin:          {"join", TypeJoinRequest},
	ServiceBRW:           {"brw", TypeBRWRequest},
	ServicePing:          {"ping", TypePingRequest},
}

// IsTest tells whether s is a test service.
func (s Service) IsTest() bool { return s == ServiceBRW || s == ServicePing }

// Portal is the portal that requests to s go to.
func (s Service) Portal() uint32 {
	if s.IsTest() {
		return TestPortal
	}
	return FrameworkPortal
}

// Request is the type of requests to s; false if there is no such service.
func (s Service) Request() (Type, bool) {
	switch s { // on every request's way: no map
	case ServiceBRW:
		return TypeBRWRequest, true
	case ServicePing:
		return TypePingRequest, true
	}
	d, ok := services[s]
	return d.request, ok
}

func (s Service) String() string {
	if d, ok := services[s]; ok {
		return d.name
	}
	return fmt.Sprintf("service %d", uint32(s))
}

// Type is the type of a message.
type Type uint32

// The types. A reply's is its request's and one more.
const (
	TypeMakeSessionRequest   Type = 0
	TypeRemoveSessionRequest Type = 2
	TypeBatchRequest         Type = 4
	TypeStatRequest          Type = 6
	TypeTestRequest          Type = 8
	TypeDebugRequest         Type = 10
	TypeBRWRequest           Type = 12
	TypePingRequest          Type = 14
	TypeJoinRequest          Type = 16
)

// Reply is the type of the reply to a request of type t.
func (t Type) Reply() Type { return t + 1 }

func (t Type) String() string {
	for s, d := range services {
		switch t {
		case d.request:
			return s.String() + " request"
		case d.request.Reply():
			return s.String() + " reply"
		}
	}
	return fmt.Sprintf("message of type %d", uint32(t))
}

// Request is a request of any type.
type Request interface {
	// Service is the service that answers it.
	Service() Service
	// Append appends the encoded request.
	Append(b []byte) []byte
}

// Reply is a reply of any type.
type Reply interface {
	// Decode reads an encoded reply.
	Decode(b []byte) error
}

package message

import "fmt"

// Portals of selftest (selftest 1).
const (
	TestPortal      = 50 // requests to test services
	FrameworkPortal = 51 // requests to framework services
	ReplyPortal     = 52 // replies and bulk
)

// Service identifies the service that a request is for. Its value is also the match bits of the request
// (selftest 2.3).
type Service uint32

// The services. ServiceBRW and ServicePing are test services, all others framework services.
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

// IsTest reports whether s is a test service.
func (s Service) IsTest() bool { return s == ServiceBRW || s == ServicePing }

// Portal returns the portal for requests to s.
func (s Service) Portal() uint32 {
	if s.IsTest() {
		return TestPortal
	}
	return FrameworkPortal
}

// Request returns the type of requests to s. It returns false if s is unknown.
func (s Service) Request() (Type, bool) {
	switch s { // every test request comes here, so avoid a map lookup
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

// The types of requests. The type of a reply is one higher.
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

// Reply returns the type of the reply to a request of type t.
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
	// Service returns the service that answers the request.
	Service() Service
	// Append appends the encoded request to b.
	Append(b []byte) []byte
}

// Reply is a reply of any type.
type Reply interface {
	// Decode decodes b. It returns an error if b is not a reply of this type.
	Decode(b []byte) error
}

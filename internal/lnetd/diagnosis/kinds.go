package diagnosis

import "strings"

// Code identifies a kind of finding.
type Code string

// The codes: 1xx lnetd itself, 2xx interfaces and NIs, 3xx peers, 4xx routes and routing, 5xx programs.
const (
	NotRunning       Code = "LNET101"
	NoAccess         Code = "LNET102"
	NoAnswer         Code = "LNET103"
	ConfigRejected   Code = "LNET104"
	DriverAbsent     Code = "LNET105"
	PortInUse        Code = "LNET106"
	PortForbidden    Code = "LNET107"
	PortFallback     Code = "LNET108"
	ProgramAbsent    Code = "LNET109"
	Unconfigured     Code = "LNET110"
	ConfigSuspicious Code = "LNET111"
	FewDescriptors   Code = "LNET112"
	DiskFull         Code = "LNET113"
	NodeStuck        Code = "LNET114"
	FewLockable      Code = "LNET115"
	ClockSet         Code = "LNET116"

	InterfaceMissing Code = "LNET201"
	InterfaceOff     Code = "LNET202"
	NoCarrier        Code = "LNET203"
	AddressMissing   Code = "LNET204"
	AddressTwice     Code = "LNET205"
	InterfaceRenamed Code = "LNET206"
	NIUnhealthy      Code = "LNET207"
	NIWaits          Code = "LNET208"
	NIDown           Code = "LNET209"
	NoNIUp           Code = "LNET210"
	OnlyLoopback     Code = "LNET211"
	AddressClaimed   Code = "LNET212"
	TimeoutLong      Code = "LNET213"

	PeerSilent       Code = "LNET301"
	PeerUnhealthy    Code = "LNET302"
	PeerConflict     Code = "LNET303"
	HostUnreachable  Code = "LNET304"
	ConnectRefused   Code = "LNET305"
	Filtered         Code = "LNET306"
	LNetRefused      Code = "LNET307"
	NoRoute          Code = "LNET308"
	WrongNet         Code = "LNET309"
	PacketsLost      Code = "LNET310"
	DiscoveryOffPeer Code = "LNET311"
	DiscoveryOffHere Code = "LNET312"
	RailSilent       Code = "LNET313"
	NIDAbsent        Code = "LNET314"
	PingFailed       Code = "LNET315"
	HostTwice        Code = "LNET316"
	NetAvoided       Code = "LNET317"
	CreditsExhausted Code = "LNET318"

	GatewayDown      Code = "LNET401"
	NetUnreachable   Code = "LNET402"
	NotARouter       Code = "LNET403"
	GatewayNoNI      Code = "LNET404"
	BuffersExhausted Code = "LNET405"
	RouterOneNet     Code = "LNET406"
	Asymmetric       Code = "LNET407"

	ClientStuck Code = "LNET501"
	NoProxy     Code = "LNET502"
)

// Kind is a kind of finding, as docs/findings.md describes it.
type Kind struct {
	Code     Code
	Severity Severity
	// Title says what is wrong in a few words, without a name.
	Title string
	// Meaning says what was observed, and what follows from it.
	Meaning string
	// Remedy is what the operator can do. A finding may have a more specific one.
	Remedy string
}

// page is the address of the documentation of findings.
const page = "https://github.com/lnetd/lnetd/blob/main/docs/findings.md"

// Page returns the address of the documentation of the kind.
func (k *Kind) Page() string { return page + "#" + strings.ToLower(string(k.Code)) }

// KindOf returns the entry of Kinds with the code, which must exist.
func KindOf(code Code) *Kind {
	for k := range Kinds {
		if Kinds[k].Code == code {
			return &Kinds[k]
		}
	}
	panic("diagnosis: no kind " + string(code))
}

package api

// Check is what "lnetd --check --json" prints: whether lnetd could start on this host with its configuration,
// and what would prevent it.
type Check struct {
	// File is the path of the configuration file. It is empty if no file was given.
	File string `json:"file,omitempty"`
	// Fault is the reason why lnetd rejects the configuration. It is nil if the configuration is valid.
	Fault *Fault `json:"fault,omitempty"`
	// Undriven are the errors about NIs for whose nets this lnetd has no driver. Fault is set too.
	Undriven []Problem `json:"undriven,omitempty"`
	// Warnings are about entries that have no effect, or not the expected one.
	Warnings []Problem `json:"warnings,omitempty"`
	// Waiting are the NIs whose interface is not usable now. Only Net, Interface, NID and Cause are set.
	Waiting []WaitingNI `json:"waiting,omitempty"`
	// Ports are the errors of listening at the addresses of NIs, with the code CodePortInUse or
	// CodePortForbidden.
	Ports []PortCheck `json:"ports,omitempty"`
}

// PortCheck is the error of listening for an NI.
type PortCheck struct {
	// Fault is the error with which lnetd would end, or would use another port.
	Fault *Fault `json:"fault"`
	// Fallback reports whether lnetd would listen on another port instead of ending.
	Fallback bool `json:"fallback,omitempty"`
}

package memory

// Region is memory that an application registered with the interfaces of a
// node, once, to be used by many messages.
type Region struct {
	// Bytes is the registered memory.
	Bytes []byte
	// Registrations holds each interface's hold on it, by interface. Drivers
	// read it without a lock: it is complete before the first message names
	// the Region, and who adds an interface makes a new Region.
	Registrations map[Registrar]Registration
}

// Registrar is implemented by interfaces that move payload by RDMA: memory
// that an application registers once needs neither a copy nor a registration
// per message afterwards.
type Registrar interface {
	// Register makes b known to the device. It may block.
	Register(b []byte) (Registration, error)
}

// Registration is a device's hold on memory.
type Registration interface {
	// Release ends the registration. No message may be using the memory.
	Release() error
}

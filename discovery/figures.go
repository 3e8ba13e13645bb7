package discovery

// Figures are counters of a Machine.
type Figures struct {
	// Queue is the number of peers that wait for their turn. Pings and Pushes are the
	// numbers of those under way.
	Queue, Pings, Pushes int

	// The following counters never decrease. PingsSent and PushesSent count those that
	// began. PingsFailed and PushesFailed count those that could not be sent, or got no
	// response or an unusable one.
	PingsSent, PingsFailed, PushesSent, PushesFailed uint64
	// PushesReceived counts pushes from peers.
	PushesReceived uint64
	// Rounds counts rounds that have ended, and RoundsFailed those that ended with an
	// error.
	Rounds, RoundsFailed uint64
}

// Figures returns the counters of the Machine.
func (m *Machine) Figures() Figures {
	f := m.figures
	f.Queue = m.queue.length
	return f
}

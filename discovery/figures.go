package discovery

// Figures are counters of a Machine.
type Figures struct {
	// Queue is the number of peers in the queue, which wait for the next step of their round.
	// Pings and Pushes are the numbers of pings and pushes under way.
	Queue, Pings, Pushes int

	// The following counters never decrease. PingsSent and PushesSent count pings and pushes
	// that were begun. PingsFailed and PushesFailed count the ones that could not be sent, or
	// got no response or an unusable one.
	PingsSent, PingsFailed, PushesSent, PushesFailed uint64
	// PushesReceived counts pushes from peers.
	PushesReceived uint64
	// Rounds counts the rounds that have ended. RoundsFailed counts the ones that ended with
	// an error.
	Rounds, RoundsFailed uint64
}

// Figures returns the counters of the Machine.
func (m *Machine) Figures() Figures {
	f := m.figures
	f.Queue = m.queue.length
	return f
}

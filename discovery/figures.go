package discovery

// Figures tell what a Machine has done, and has to do.
type Figures struct {
	// Queue is how many peers wait for their turn, Pings and Pushes how many of each
	// are under way.
	Queue, Pings, Pushes int

	// What follows only grows. PingsSent and PushesSent were begun; of them PingsFailed
	// and PushesFailed could not be sent, had no answer, or one of no use.
	PingsSent, PingsFailed, PushesSent, PushesFailed uint64
	// PushesReceived came from peers.
	PushesReceived uint64
	// Rounds have ended, RoundsFailed of them with an error.
	Rounds, RoundsFailed uint64
}

// Figures returns the Machine's.
func (m *Machine) Figures() Figures {
	f := m.figures
	f.Queue = m.queue.length
	return f
}

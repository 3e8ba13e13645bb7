package api

// Done is the reply to a change.
type Done struct{}

// Refusal is the body of every reply that is not 200.
type Refusal struct {
	Error *Fault `json:"error"`
}

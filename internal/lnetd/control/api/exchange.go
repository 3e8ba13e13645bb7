package api

// Done is the empty reply to a successful change.
type Done struct{}

// Refusal is the body of every reply whose status is not 200.
type Refusal struct {
	Error *Fault `json:"error"`
}

package api

// Done is an empty reply, to a change that succeeded, or an empty request.
type Done struct{}

// Refusal is the body of every reply to a request that failed, whose HTTP status is not 200.
type Refusal struct {
	Error *Fault `json:"error"`
}

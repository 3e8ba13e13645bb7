package api

import (
	"github.com/lnetd/lnetd/lnet"
)

// Explanation is the reply to GET /v1/explain: the path that a message to a NID would take, and
// why.
type Explanation struct {
	To lnet.NID `json:"nid"`
	// Source is the NI that the message must leave from, or zero for any.
	Source lnet.NID `json:"source,omitzero"`
	// Case describes the send procedure that was used.
	Case string `json:"case"`
	// Steps are the choices in the order they were made. A step without candidates is a remark.
	Steps []ExplainedStep `json:"steps"`
	// Path is the chosen path, or nil if there is no path.
	Path *Path `json:"path,omitempty"`
	// Error says why there is no path.
	Error string `json:"error,omitempty"`
	// Remedy is advice, if any is known.
	Remedy string `json:"remedy,omitempty"`
}

// ExplainedStep is one choice.
type ExplainedStep struct {
	// What names the kind of candidate: "net", "NI", "peer NI", "route to o2ib".
	What string `json:"what"`
	// Candidates are ranked. The first one was chosen.
	Candidates []RankedCandidate `json:"candidates,omitempty"`
	// Excluded are the candidates that could not be chosen.
	Excluded []ExcludedCandidate `json:"excluded,omitempty"`
}

// RankedCandidate is a candidate that could have been chosen.
type RankedCandidate struct {
	Name string `json:"name"`
	// By is the criterion that ranked it below the candidate before it: "order" if all criteria
	// were equal, empty for the first candidate.
	By string `json:"by,omitempty"`
	// Figures are the values that were compared, the most important criterion first. All candidates
	// of a step have the same criteria, as far as they apply.
	Figures []Figure `json:"figures"`
}

// Figure is the value of one criterion.
type Figure struct {
	Criterion string `json:"criterion"`
	// Value is -1 for no priority. It is 0 or 1 for a criterion that is false or true.
	Value int64 `json:"value"`
	// Text describes the value for an operator.
	Text string `json:"text"`
}

// ExcludedCandidate is a candidate that could not be chosen, and the reason.
type ExcludedCandidate struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// Path is the path of a message.
type Path struct {
	// From is the local NI.
	From lnet.NID `json:"from"`
	// Gateway is the first router on the path, or zero for a direct path.
	Gateway lnet.NID `json:"gateway,omitzero"`
	// To is the final destination.
	To lnet.NID `json:"to"`
}

// ByOrder is the value of By for a candidate that differs from the one before it only in order.
const ByOrder = "order"

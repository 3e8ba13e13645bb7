package api

import (
	"github.com/lnetd/lnetd/lnet"
)

// Explanation is the reply to GET /v1/explain: the path that a message to a NID would take, and
// why.
type Explanation struct {
	To lnet.NID `json:"nid"`
	// Source is the NID from which the message must be sent. It is zero if lnetd may choose it.
	Source lnet.NID `json:"source,omitzero"`
	// Case describes which of LNet's procedures for choosing a path was used.
	Case string `json:"case"`
	// Steps are the choices in the order they were made. A step without candidates is a remark.
	Steps []ExplainedStep `json:"steps"`
	// Path is the chosen path, or nil if there is no path.
	Path *Path `json:"path,omitempty"`
	// Error is the reason why no path exists. It is empty if Path is set.
	Error string `json:"error,omitempty"`
	// Remedy is what the operator can do if there is no path. It may be empty.
	Remedy string `json:"remedy,omitempty"`
}

// ExplainedStep is one of the choices that lead to a path.
type ExplainedStep struct {
	// The kind of candidates that this step chooses from: "net", "NI", "peer NI", "route to o2ib".
	What string `json:"what"`
	// Candidates are ranked. The first one was chosen.
	Candidates []RankedCandidate `json:"candidates,omitempty"`
	// Excluded are the candidates that could not be chosen.
	Excluded []ExcludedCandidate `json:"excluded,omitempty"`
}

// RankedCandidate is a candidate that could have been chosen.
type RankedCandidate struct {
	Name string `json:"name"`
	// By is the criterion because of which this candidate is ranked below the one before it. It is
	// ByOrder if the candidates were equal in all criteria, and empty for the first candidate.
	By string `json:"by,omitempty"`
	// Figures are the values that were compared, the most important criterion first. All candidates
	// of a step have the same criteria, as far as they apply.
	Figures []Figure `json:"figures"`
}

// Figure is the value of one criterion.
type Figure struct {
	Criterion string `json:"criterion"`
	// Value is the value of the criterion. It is -1 for a priority that is not set, and 0 or 1 for a
	// criterion that is false or true.
	Value int64 `json:"value"`
	// Text describes the value for an operator.
	Text string `json:"text"`
}

// ExcludedCandidate is a candidate that could not be chosen, with the reason.
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

// ByOrder is the value of By for a candidate that is equal to the one before it in all criteria.
const ByOrder = "order"

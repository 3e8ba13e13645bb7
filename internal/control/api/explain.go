package api

import (
	"github.com/lnetd/lnetd/lnet"
)

// Explanation is the reply to GET /v1/explain: how a message to a NID would
// travel, and why.
type Explanation struct {
	To lnet.NID `json:"nid"`
	// Source is the NI that the message was to leave from, zero for any.
	Source lnet.NID `json:"source,omitzero"`
	// Case is which procedure was followed, in words.
	Case string `json:"case"`
	// Steps are in the order in which they were taken; one without candidates is
	// a remark.
	Steps []ExplainedStep `json:"steps"`
	// Path is what was chosen in the end; nil if there is no path.
	Path *Path `json:"path,omitempty"`
	// Error says why there is no path.
	Error string `json:"error,omitempty"`
	// Remedy says what helps, if that is known.
	Remedy string `json:"remedy,omitempty"`
}

// ExplainedStep is one choice.
type ExplainedStep struct {
	// What was chosen: "net", "NI", "peer NI", "route to o2ib".
	What string `json:"what"`
	// Candidates are ranked, the chosen one first.
	Candidates []RankedCandidate `json:"candidates,omitempty"`
	// Excluded could not be chosen.
	Excluded []ExcludedCandidate `json:"excluded,omitempty"`
}

// RankedCandidate is one that could have been chosen.
type RankedCandidate struct {
	Name string `json:"name"`
	// By is the criterion that put it behind the candidate above it; "order" if
	// all was equal, empty for the first.
	By string `json:"by,omitempty"`
	// Figures are those that count, the most important one first; each
	// candidate of a step has the same criteria, as far as they make sense.
	Figures []Figure `json:"figures"`
}

// Figure is what a criterion compares.
type Figure struct {
	Criterion string `json:"criterion"`
	// Value is -1 for no priority, and 0 or 1 for what holds or does not.
	Value int64 `json:"value"`
	// Text is the value in words.
	Text string `json:"text"`
}

// ExcludedCandidate is what could not be chosen, and why.
type ExcludedCandidate struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// Path is the way of a message.
type Path struct {
	// From is the local NI.
	From lnet.NID `json:"from"`
	// Gateway is the router that gets it first; zero if there is none.
	Gateway lnet.NID `json:"gateway,omitzero"`
	// To is the NID that it is for in the end.
	To lnet.NID `json:"to"`
}

// ByOrder is the By of candidates that nothing but their order told apart.
const ByOrder = "order"

package selection

import "strconv"

// Criterion is an attribute because of which one candidate was preferred to another.
type Criterion uint8

// The criteria, by step and in order of precedence (selection 5). ByNothing is used for
// the only candidate of a step.
const (
	ByNothing Criterion = iota
	ByPeerNetTrouble
	ByPeerNetHealth
	ByPeerNetPriority
	ByNetHealth
	ByNetPriority
	ByPeerNetTurn
	ByNetTurn
	ByFatal
	ByNITrouble
	ByNIHealth
	ByNIPriority
	ByAffinity
	ByDistance
	ByNICredits
	ByNITurn
	ByPeerNITrouble
	ByPeerNIHealth
	ByPeerNIPriority
	ByPreference
	ByPeerNICredits
	ByPeerNITurn
	ByGatewayTrouble
	ByPreferredRouter
	ByRoutePriority
	ByHops
	ByGatewayHealth
	ByGatewayQueue
	ByGatewayCredits
	ByRouteTurn
	// ByOrder means that all attributes are equal, so that the order of the candidates
	// decides.
	ByOrder
)

var criterionNames = [...]string{
	ByNothing:         "",
	ByPeerNetTrouble:  "peer net trouble",
	ByPeerNetHealth:   "peer net health",
	ByPeerNetPriority: "peer net priority",
	ByNetHealth:       "net health",
	ByNetPriority:     "net priority",
	ByPeerNetTurn:     "peer net turn",
	ByNetTurn:         "net turn",
	ByFatal:           "link",
	ByNITrouble:       "trouble from here",
	ByNIHealth:        "NI health",
	ByNIPriority:      "NI priority",
	ByAffinity:        "device affinity",
	ByDistance:        "NUMA distance",
	ByNICredits:       "NI credits",
	ByNITurn:          "NI turn",
	ByPeerNITrouble:   "peer NI trouble",
	ByPeerNIHealth:    "peer NI health",
	ByPeerNIPriority:  "peer NI priority",
	ByPreference:      "preferred source",
	ByPeerNICredits:   "peer NI credits",
	ByPeerNITurn:      "peer NI turn",
	ByGatewayTrouble:  "gateway trouble",
	ByPreferredRouter: "preferred router",
	ByRoutePriority:   "route priority",
	ByHops:            "hops",
	ByGatewayHealth:   "gateway health",
	ByGatewayQueue:    "gateway queue",
	ByGatewayCredits:  "gateway credits",
	ByRouteTurn:       "route turn",
	ByOrder:           "order",
}

// String returns the criterion in words, or "" for ByNothing.
func (c Criterion) String() string {
	if int(c) < len(criterionNames) {
		return criterionNames[c]
	}
	return "criterion " + strconv.Itoa(int(c))
}

// MarshalText returns the criterion in words. It never fails.
func (c Criterion) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

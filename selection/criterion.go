package selection

import "strconv"

// Criterion is what told two candidates apart.
type Criterion uint8

// Criteria, by step in the order in which they count (selection 5). The zero
// value stands for the one and only candidate.
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
	// ByOrder: all is equal, the place in the list decides.
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

// String is the criterion in words, empty for ByNothing.
func (c Criterion) String() string {
	if int(c) < len(criterionNames) {
		return criterionNames[c]
	}
	return "criterion " + strconv.Itoa(int(c))
}

// MarshalText is the criterion in words. It never fails.
func (c Criterion) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

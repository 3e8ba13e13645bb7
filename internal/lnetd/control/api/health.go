package api

import (
	"github.com/lnetd/lnetd/lnet"
)

// MaxHealth is the health of an NI or a peer NI on which nothing has failed lately; 0 is the worst (lnetctl 4.5).
const MaxHealth = 1000

// HealthChange is the body of POST /v1/nets/health and POST /v1/peers/health. It sets the health of
// one NI or peer NI, or of all.
type HealthChange struct {
	NID lnet.NID `json:"nid,omitzero"`
	All bool     `json:"all,omitempty"`
	// Value is required. It is clamped to 0 to MaxHealth.
	Value *int `json:"value,omitempty"`
}

package api

import (
	"github.com/lnetd/lnetd/lnet"
)

// HealthChange is the body of POST /v1/nets/health and POST /v1/peers/health. It sets the health of
// one NI or peer NI, or of all.
type HealthChange struct {
	NID lnet.NID `json:"nid,omitzero"`
	All bool     `json:"all,omitempty"`
	// Value is required. It is clamped to 0 to 1000.
	Value *int `json:"value,omitempty"`
}

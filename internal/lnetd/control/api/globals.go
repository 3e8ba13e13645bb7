package api

// Globals is the reply to GET /v1/globals: the node's parameters by name, as lnetctl shows them (lnetctl
// 6). Times are in seconds. In JSON the values are members of the reply itself.
type Globals struct {
	Values map[string]int64 `json:"-"`
	// Verify reports that discovery, which is shown as 1, changes no peer.
	Verify bool `json:"discovery_verify,omitempty"`
}

// globals is Globals without its methods.
type globals Globals

// MarshalJSON adds Values to the other members.
func (g Globals) MarshalJSON() ([]byte, error) { return marshalWith(globals(g), g.Values) }

// UnmarshalJSON takes all unknown members as Values.
func (g *Globals) UnmarshalJSON(b []byte) (err error) {
	g.Values, err = unmarshalWith(b, (*globals)(g), "discovery_verify")
	return err
}

// GlobalsChange is the body of POST /v1/globals. Parameters that are absent are not changed. In JSON
// the values are members of the body itself.
type GlobalsChange struct {
	Values map[string]int64 `json:"-"`
	// Verify selects whether discovery, if it is on, changes no peer.
	Verify *bool `json:"discovery_verify,omitempty"`
}

// globalsChange is GlobalsChange without its methods.
type globalsChange GlobalsChange

// MarshalJSON adds Values to the other members.
func (c GlobalsChange) MarshalJSON() ([]byte, error) {
	return marshalWith(globalsChange(c), c.Values)
}

// UnmarshalJSON takes all unknown members as Values.
func (c *GlobalsChange) UnmarshalJSON(b []byte) (err error) {
	c.Values, err = unmarshalWith(b, (*globalsChange)(c), "discovery_verify")
	return err
}

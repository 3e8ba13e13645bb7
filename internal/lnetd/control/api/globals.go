package api

// Globals is the reply to GET /v1/globals. It holds the node's parameters by name, with the values that
// lnetctl prints (lnetctl 6). Times are in seconds. In JSON, each parameter is a member of the reply itself.
type Globals struct {
	Values map[string]int64 `json:"-"`
	// Verify reports whether discovery only compares and changes no peer. The parameter discovery is 1
	// in this case.
	Verify bool `json:"discovery_verify,omitempty"`
}

// globals is Globals without its methods, so that encoding/json does not call these again.
type globals Globals

// MarshalJSON adds Values to the other members.
func (g Globals) MarshalJSON() ([]byte, error) { return marshalWith(globals(g), g.Values) }

// UnmarshalJSON takes all unknown members as Values.
func (g *Globals) UnmarshalJSON(b []byte) (err error) {
	g.Values, err = unmarshalWith(b, (*globals)(g), "discovery_verify")
	return err
}

// GlobalsChange is the body of POST /v1/globals. It sets parameters by name. Those that it omits do not
// change. In JSON, each parameter is a member of the body itself.
type GlobalsChange struct {
	Values map[string]int64 `json:"-"`
	// Verify sets whether discovery, if it is on, only compares and changes no peer. If it is nil, this
	// does not change.
	Verify *bool `json:"discovery_verify,omitempty"`
}

// globalsChange is GlobalsChange without its methods, so that encoding/json does not call these again.
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

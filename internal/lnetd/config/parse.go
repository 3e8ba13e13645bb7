package config

import "context"

// Parse parses a configuration file, which is called name in messages. The file may contain the options
// of the given drivers. Settings that it omits get their defaults. The error is a Problems with all
// findings.
func Parse(name string, data []byte, drivers []DriverOptions) (Config, error) {
	return newReading(context.Background(), name, drivers).config(data, Default())
}

// ParseOver is like Parse for a document that is added to the configuration of a node in state base.
// Parameters, routing and router buffers that the document omits keep their values in base. If ctx ends
// first, ParseOver returns its cause.
func ParseOver(ctx context.Context, name string, data []byte, drivers []DriverOptions, base *State) (Config, error) {
	over := Default()
	over.Parameters, over.Routing, over.Buffers = base.Parameters, base.Routing, base.Buffers
	return newReading(ctx, name, drivers).config(data, over)
}

// ParseInstead is like Parse for a document that replaces the configuration of a running node. Settings
// of lnetd itself that the document omits are taken from the command line, which must be valid, or get
// their defaults. If ctx ends first, ParseInstead returns its cause.
func ParseInstead(ctx context.Context, name string, data []byte, drivers []DriverOptions, line *Override) (Config, error) {
	over := Default()
	over.applyAround(line, func(string, error) {})
	return newReading(ctx, name, drivers).config(data, over)
}

func newReading(ctx context.Context, name string, drivers []DriverOptions) *reading {
	return &reading{ctx: ctx, name: name, drivers: drivers, wholeMax: diagnosisMax, pieceSize: pieceSize}
}

// config parses a document and returns c with the settings of the document.
func (r *reading) config(data []byte, c Config) (Config, error) {
	f := r.read(data)
	c.readNetTypes(&f, r)
	for _, n := range f.nets {
		c.addNet(n)
	}
	c.addNetRules(f.netRules)
	c.addPeers(&f)
	c.applyGlobals(f.globals)
	c.applyLnetd(&f)
	f.eachRoute(c.addRoute)
	indexes := c.addRules(f.rules)
	ids, where := c.addTypedRules(f.typed)
	c.applyRouting(&f)
	c.Given = f.settings(indexes)
	c.Given.RuleIDs, c.Given.RuleWhere = ids, where
	if len(r.problems) == 0 {
		r.checkDrivers(&c)
	}
	var err error
	c.Warnings, err = r.result()
	return c, err
}

// result returns the warnings about the document. If there were problems, the error is a Problems with
// all of them and the warnings. If reading was interrupted, the error is the cause.
func (r *reading) result() (Problems, error) {
	if err := context.Cause(r.ctx); err != nil {
		return nil, err
	}
	if r.failed != nil {
		return nil, Problems{r.failed}
	}
	if len(r.problems) > 0 {
		warnings := sortAndLimit(r.warnings)
		return warnings, WithWarnings(sortAndLimit(r.problems), warnings)
	}
	return sortAndLimit(r.warnings), nil
}

// checkDrivers calls the drivers' Check functions for their options in c, and reports the errors.
func (r *reading) checkDrivers(c *Config) {
	for k := range r.drivers {
		d := &r.drivers[k]
		if d.Check == nil {
			continue
		}
		if err := d.Check(c.Drivers[d.Type]); err != nil {
			r.problems = append(r.problems, &Problem{File: r.name, Key: "lnetd", Text: err.Error()})
		}
	}
}

package config

import "context"

// Parse parses a configuration file, which is called name in messages. The file may contain the
// options of drivers. The error is a Problems with everything that is wrong.
func Parse(name string, data []byte, drivers []DriverOptions) (Config, error) {
	return newReading(context.Background(), name, drivers).config(data, Default())
}

// ParseOver is like Parse for a document that is applied over a node in state base. Parameters,
// routing and buffers that the document omits are those of base. It returns the cause of ctx if
// ctx ends first.
func ParseOver(ctx context.Context, name string, data []byte, drivers []DriverOptions, base *State) (Config, error) {
	over := Default()
	over.Parameters, over.Routing, over.Buffers = base.Parameters, base.Routing, base.Buffers
	return newReading(ctx, name, drivers).config(data, over)
}

// ParseInstead is like Parse for a document that replaces a node's configuration. Settings of
// lnetd itself that the document omits are those of the command line, which must be valid, or the
// defaults. It returns the cause of ctx if ctx ends first.
func ParseInstead(ctx context.Context, name string, data []byte, drivers []DriverOptions, line *Override) (Config, error) {
	over := Default()
	over.applyAround(line, func(string, error) {})
	return newReading(ctx, name, drivers).config(data, over)
}

func newReading(ctx context.Context, name string, drivers []DriverOptions) *reading {
	return &reading{ctx: ctx, name: name, drivers: drivers}
}

// config applies a document to c.
func (r *reading) config(data []byte, c Config) (Config, error) {
	f := r.read(data)
	for _, n := range f.nets {
		c.addNet(n)
	}
	c.addNetRules(f.netRules)
	c.addPeers(f.peers)
	c.applyGlobals(f.globals)
	c.applyLnetd(&f)
	for _, at := range f.routes {
		c.addRoute(at)
	}
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

// result returns the warnings, and as the error all problems, or the reason why the document was
// not read.
func (r *reading) result() (Problems, error) {
	if err := context.Cause(r.ctx); err != nil {
		return nil, err
	}
	if len(r.problems) > 0 {
		warnings := sortAndLimit(r.warnings)
		return warnings, WithWarnings(sortAndLimit(r.problems), warnings)
	}
	return sortAndLimit(r.warnings), nil
}

// checkDrivers calls the Check functions of the drivers.
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

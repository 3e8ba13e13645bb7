package config

import "context"

// Parse reads a configuration file called name, in which the options of drivers
// may stand. The error is Problems: everything that is wrong in it.
func Parse(name string, data []byte, drivers []DriverOptions) (Config, error) {
	return newReading(context.Background(), name, drivers).config(data, Default())
}

// ParseOver is Parse of a document that is put over a node: what it leaves out of the
// parameters, of routing and of the buffers is that of base. It returns ctx's error if ctx is
// done before the document is read.
func ParseOver(ctx context.Context, name string, data []byte, drivers []DriverOptions, base *State) (Config, error) {
	over := Default()
	over.Parameters, over.Routing, over.Buffers = base.Parameters, base.Routing, base.Buffers
	return newReading(ctx, name, drivers).config(data, over)
}

// ParseInstead is Parse of a document that replaces what there is: what it leaves out around the
// node is what the command line says, which was checked before, or the default. It returns ctx's
// error if ctx is done before the document is read.
func ParseInstead(ctx context.Context, name string, data []byte, drivers []DriverOptions, line *Override) (Config, error) {
	over := Default()
	over.applyAround(line, func(string, error) {})
	return newReading(ctx, name, drivers).config(data, over)
}

func newReading(ctx context.Context, name string, drivers []DriverOptions) *reading {
	return &reading{ctx: ctx, name: name, drivers: drivers}
}

// config puts a document over c.
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
	c.Given = f.given(indexes)
	c.Given.RuleIDs, c.Given.RuleWhere = ids, where
	if len(r.problems) == 0 {
		r.checkDrivers(&c)
	}
	var err error
	c.Warnings, err = r.judged()
	return c, err
}

// judged is what was worth a word, and all that was wrong, or why the document was not read.
func (r *reading) judged() (Problems, error) {
	if err := context.Cause(r.ctx); err != nil {
		return nil, err
	}
	if len(r.problems) > 0 {
		warnings := inOrder(r.warnings)
		return warnings, WithWarnings(inOrder(r.problems), warnings)
	}
	return inOrder(r.warnings), nil
}

// checkDrivers has each driver judge what is set of it.
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

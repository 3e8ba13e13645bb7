package main

import "github.com/spf13/cobra"

func (p *program) netCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "net",
		Short: "the node's nets and NIs",
	}
	c.AddCommand(p.netShowCommand())
	return c
}

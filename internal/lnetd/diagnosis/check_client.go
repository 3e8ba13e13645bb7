package diagnosis

import "fmt"

// clients finds programs that do not read their completions.
func clients(f *Facts) (found []Finding) {
	if f.Node == nil {
		return nil
	}
	for k := range f.Node.Clients.Clients {
		c := &f.Node.Clients.Clients[k]
		for i := range c.TMs {
			t := &c.TMs[i]
			if t.Kept > 0 {
				found = append(found, find(ClientStuck, fmt.Sprintf("client %d (%s, pid %d)", c.ID, c.Program, c.PID),
					fmt.Sprintf("%d completions wait in a ring of %d, and lnetd keeps %d more", t.Waiting, t.Entries, t.Kept),
					fmt.Sprintf("look at the program; lnetdctl client drop %d ends its connection", c.ID)))
			}
		}
	}
	return found
}

// proxies finds NIs that no proxy serves.
func proxies(f *Facts) (found []Finding) {
	if f.Node == nil {
		return nil
	}
	for _, u := range f.Node.Clients.Unserved {
		found = append(found, find(NoProxy, u.NI, u.Reason, ""))
	}
	return found
}

package sim

import "fmt"

// An Update is a new version of the application: its pods need CPU and Memory times as much
// per request. Pods are replaced one at a time, unless all change at once; each new one is
// ready before an old one ends.
type Update struct {
	At          float64 // seconds
	CPU, Memory float64 // factors of the need of the first version
	Wait        float64 // factor of the time that requests wait for others; 0 = 1
	// AtOnce: the requests change and not the program: no pod is replaced, and all pods need
	// as much for requests from then on.
	AtOnce bool
}

func checkUpdates(list []Update) error {
	for i, u := range list {
		if !(u.At >= 0 && u.CPU > 0 && u.CPU < 1e6 && u.Memory > 0 && u.Memory < 1e6 && u.Wait >= 0 && u.Wait < 1e6) {
			return fmt.Errorf("updates[%d]: at %v, cpu %v, memory %v, wait %v: want a time from 0 and factors above 0", i, u.At, u.CPU, u.Memory, u.Wait)
		}
		if i > 0 && u.At < list[i-1].At {
			return fmt.Errorf("updates[%d]: at %v: it is before the one above", i, u.At)
		}
	}
	return nil
}

// cpuOf, waitOf and memoryOf return the factors of a version.
func (c *Config) cpuOf(version int) float64 {
	if version == 0 {
		return 1
	}
	return c.Updates[version-1].CPU
}

func (c *Config) waitOf(version int) float64 {
	if version == 0 {
		return 1
	}
	return c.Updates[version-1].Wait
}

func (c *Config) memoryOf(version int) float64 {
	if version == 0 {
		return 1
	}
	return c.Updates[version-1].Memory
}

// update begins a rollout when it is due, and replaces the next pod.
func (s *simulation) update(now float64) {
	for s.version < len(s.cfg.Updates) && now > s.cfg.Updates[s.version].At {
		s.version++
		if s.cfg.Updates[s.version-1].AtOnce {
			for _, p := range s.pods {
				p.version = s.version
				p.Factor, p.Slower = s.cfg.cpuOf(p.version), s.cfg.waitOf(p.version)
			}
		}
	}
	if s.version == 0 {
		return
	}
	alive := 0
	var old *instance
	for _, p := range s.pods {
		switch {
		case p.ending:
			continue
		case p.ready < 0:
			return // one at a time
		case old == nil && p.version < s.version:
			old = p
		}
		alive++
	}
	switch {
	case old == nil:
	case alive > int(s.replicas):
		old.ending, old.due = true, now+s.cfg.Site.Grace
		s.e.Close(old.slot)
	default:
		s.make()
	}
}

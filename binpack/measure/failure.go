package measure

import "github.com/sigma-scheduler/sigma/binpack"

// A Failure is the most that the failure of one machine, or of one zone, takes of a group.
type Failure struct {
	Items   int32 // of the group
	Machine int32 // the most on one machine
	Zone    int32 // the most in one zone; 0 = no machine has a zone
}

// Failures are those of all groups, in the order of the instance. Machines without a zone are in
// one of their own where others have one.
func Failures(s *binpack.State) []Failure {
	inst := s.Instance()
	out := make([]Failure, len(inst.Groups))
	zoned := false
	for _, line := range inst.Machines {
		zoned = zoned || line.Zone != ""
	}
	type zoneOf struct {
		zone  string
		group int32
	}
	inZone := map[zoneOf]int32{}
	for m := range int32(s.Size()) {
		line, _ := s.Position(m)
		here := map[int32]int32{}
		for _, e := range s.Contents(m) {
			here[e.Group] += e.Count
		}
		for g, n := range here {
			f := &out[g]
			f.Items += n
			f.Machine = max(f.Machine, n)
			if zoned {
				at := zoneOf{inst.Machines[line].Zone, g}
				inZone[at] += n
				f.Zone = max(f.Zone, inZone[at])
			}
		}
	}
	return out
}

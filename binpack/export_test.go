package binpack

// SearchesClassesLate reports whether Choose leaves classes pending.
func (s *State) SearchesClassesLate() bool {
	return !s.classes.off && s.ordered && len(s.classes.live) >= fewClasses
}

package binpack

// SearchesClassesLate reports whether Choose leaves classes pending.
func (s *State) SearchesClassesLate() bool {
	return !s.classes.off && s.ordered && len(s.classes.live) >= fewClasses
}

// SearchIndexes has states of any size search their indexes, until restore is called.
func SearchIndexes() (restore func()) {
	few := fewClasses
	searchAlways, fewClasses = true, 0
	return func() { searchAlways, fewClasses = false, few }
}

// Package binpack is online vector bin packing under placement constraints.
//
// Items (containers) with an integer demand per dimension arrive one by one
// and are placed at once, for good or until they are deleted, on machines with
// an integer capacity per dimension. The package holds the problem
// ([Instance]), its changing situation ([State], stored by column), the seam
// between a placement policy and its drivers ([Policy], [Scorer]), the one ranking
// ([State.Candidates], [State.Rank], its first [State.Choose], and [State.Explain])
// and an independent slow checker ([Checker]).
//
// Size: the parts of State share their columns, and packages that split them would export these.
//
// It uses no Kubernetes, no files, no clocks and no random numbers.
package binpack

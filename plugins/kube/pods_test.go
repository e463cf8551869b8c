package kube_test

import "github.com/sigma-scheduler/sigma/plugins/podspec/podtest"

var (
	podOf    = podtest.Pod
	ownedBy  = podtest.OwnedBy
	labelled = podtest.Labelled
	requests = podtest.Requests
	list     = podtest.List
)

// Package vpa compares the vertical agent with the recommender of VPA 1.8.1. It is a
// module of its own because that version needs newer Kubernetes modules than the
// product has.
package vpa

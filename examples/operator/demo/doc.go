// SPDX-License-Identifier: Apache-2.0

// Package demo runs the example operator and an API server in one process through a fixed scenario, and checks the
// result of each step.
//
// The operator has the rights of config/rbac.yaml and no others: the server answers 403 to every other request of it.
// A step is an action of a user, such as the rotation of a Secret, and some checks: of the status that the operator
// writes into a Site, and of the requests that the server has got. The time printed with a check runs from before the
// action to the moment the check succeeded. Nothing sleeps, and nothing polls: checks follow a watch of the Site, or
// the server's counters.
package demo

//! Turns API objects into levels and schemas (`cfgMeal` of k8s.io/apiserver
//! `util/flowcontrol/apf_controller.go`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::borrowing::adjust;
use crate::level::{Level, Surroundings};
use crate::limits::Limits;
use crate::objects::{
    CATCH_ALL, EXEMPT, FlowSchema, Ignored, Objects, PriorityLevelConfiguration,
    mandatory_flow_schemas, mandatory_priority_levels,
};
use crate::queue_set::config::{Queuing, is_mandatory};
use crate::schema::Schema;
use crate::seat_demand::SeatDemand;

#[derive(Debug)]
pub(crate) struct LevelState {
    pub level: Arc<Level>,
    object: PriorityLevelConfiguration,
    pub queuing: Queuing,
    pub limits: Limits,
    /// The limit that is in force now.
    pub current: usize,
    pub demand: SeatDemand,
    /// The seats that the level wants. An exempt level has no target.
    pub target: Option<f64>,
}

/// The configuration in force.
pub(crate) struct Controller {
    surroundings: Arc<Surroundings>,
    total_seats: usize,
    objects: Objects,
    levels: BTreeMap<String, LevelState>,
    /// The sum of the nominal limits, which are rounded up.
    nominal_sum: usize,
    fair_fraction: f64,
}

/// The part of a configuration that requests use.
pub(crate) struct Active {
    /// In the order of matching.
    pub schemas: Vec<Arc<Schema>>,
    /// The schema for requests that no other schema matches.
    pub catch_all: Arc<Schema>,
    pub levels: Vec<Arc<Level>>,
}

impl Controller {
    pub(crate) fn new(
        surroundings: Arc<Surroundings>,
        total_seats: usize,
        objects: Objects,
    ) -> Self {
        Self {
            surroundings,
            total_seats,
            objects,
            levels: BTreeMap::new(),
            nominal_sum: 0,
            fair_fraction: 0.0,
        }
    }

    pub(crate) fn set_total_seats(&mut self, seats: usize) {
        self.total_seats = seats;
    }

    pub(crate) fn set_objects(&mut self, objects: Objects) {
        self.objects = objects;
    }

    pub(crate) fn levels(&self) -> &BTreeMap<String, LevelState> {
        &self.levels
    }

    pub(crate) fn fair_fraction(&self) -> f64 {
        self.fair_fraction
    }

    pub(crate) fn adjust(&mut self) {
        self.fair_fraction = adjust(&mut self.levels, self.nominal_sum, self.total_seats);
    }

    /// Puts the objects in force.
    pub(crate) fn digest(&mut self) -> (Active, Vec<Ignored>) {
        let mut ignored = Vec::new();
        let named = self.take_up_levels(&mut ignored);
        let schemas = self.ordered_schemas(&named, &mut ignored);
        self.keep_or_retire(&named);
        for mandatory in mandatory_priority_levels() {
            if !self.levels.contains_key(&mandatory.metadata.name)
                && let Ok(queuing) = Queuing::from_object(&mandatory)
            {
                self.take_up(mandatory, queuing);
            }
        }
        self.set_limits();
        let active = self.active(&schemas);
        self.adjust();
        (active, ignored)
    }

    /// Takes over each level that an object describes correctly. Returns their
    /// names.
    fn take_up_levels(&mut self, ignored: &mut Vec<Ignored>) -> BTreeSet<String> {
        let mut named = BTreeSet::new();
        for object in self.objects.priority_levels.clone() {
            let name = object.metadata.name.clone();
            let queuing = match Queuing::from_object(&object) {
                Ok(_) if named.contains(&name) => Err("there are two objects of the name"),
                read => read,
            };
            match queuing {
                Ok(queuing) => {
                    self.take_up(object, queuing);
                    named.insert(name);
                }
                Err(reason) => ignored.push(Ignored::PriorityLevel { name, reason }),
            }
        }
        named
    }

    fn take_up(&mut self, object: PriorityLevelConfiguration, queuing: Queuing) {
        match self.levels.get_mut(&object.metadata.name) {
            Some(state) => {
                state.level.want();
                state.object = object;
                state.queuing = queuing;
            }
            None => {
                let name = object.metadata.name.clone();
                let state = LevelState {
                    level: Level::new(&name, &self.surroundings),
                    object,
                    queuing,
                    limits: Limits::default(),
                    current: 0,
                    demand: SeatDemand::default(),
                    target: None,
                };
                self.levels.insert(name, state);
            }
        }
    }

    /// Returns the schemas that lead to a level, in the order of matching. The
    /// mandatory ones, which are the first and the last, are added if they are
    /// absent.
    fn ordered_schemas(
        &self,
        named: &BTreeSet<String>,
        ignored: &mut Vec<Ignored>,
    ) -> Vec<FlowSchema> {
        let mut names = BTreeSet::new();
        let mut schemas = Vec::new();
        for schema in &self.objects.flow_schemas {
            let name = schema.metadata.name.clone();
            let level = &schema.spec.priority_level_configuration.name;
            if !names.insert(name.clone()) {
                ignored.push(Ignored::SecondFlowSchema { name });
            } else if named.contains(level) {
                schemas.push(schema.clone());
            } else {
                let level = level.clone();
                ignored.push(Ignored::Dangling { name, level });
            }
        }
        schemas.sort_by(|a, b| {
            let order = |s: &FlowSchema| s.spec.matching_precedence;
            (order(a), &a.metadata.name).cmp(&(order(b), &b.metadata.name))
        });
        let [exempt, catch_all] = mandatory_flow_schemas();
        let has = |schemas: &[FlowSchema], name: &str| {
            schemas.iter().any(|schema| schema.metadata.name == name)
        };
        if !has(&schemas, EXEMPT) {
            schemas.insert(0, exempt);
        }
        if !has(&schemas, CATCH_ALL) {
            schemas.push(catch_all);
        }
        schemas
    }

    /// Removes levels that no object describes once they have no requests.
    fn keep_or_retire(&mut self, named: &BTreeSet<String>) {
        self.levels.retain(|name, state| {
            named.contains(name) || is_mandatory(name) || !state.level.unwant()
        });
    }

    fn set_limits(&mut self) {
        let shares = |state: &LevelState| f64::from(state.object.spec.shares());
        let all_shares = self.levels.values().map(shares).sum();
        self.nominal_sum = 0;
        for state in self.levels.values_mut() {
            let limits = Limits::for_level(&state.object.spec, self.total_seats, all_shares);
            state.limits = limits;
            self.nominal_sum = self.nominal_sum.saturating_add(limits.nominal);
            if let Queuing::Queues { hand_size, .. } = state.queuing {
                state.level.set_max_seats(limits.max_seats(hand_size));
            }
        }
    }

    fn active(&self, objects: &[FlowSchema]) -> Active {
        let schemas: Vec<Arc<Schema>> = objects
            .iter()
            .filter_map(|object| {
                let level = &object.spec.priority_level_configuration.name;
                let state = self.levels.get(level)?;
                let uid = &state.object.metadata.uid;
                let has_flows = state.queuing.has_flows();
                let schema = Schema::new(object, state.level.clone(), uid, has_flows);
                Some(Arc::new(schema))
            })
            .collect();
        for (name, state) in &self.levels {
            let of_level = schemas.iter().filter(|s| s.level.name() == name);
            let names: Vec<&str> = of_level.map(|s| s.name.as_str()).collect();
            state.level.change(|set, _| set.set_schemas(&names));
        }
        let catch_all = schemas.iter().find(|s| s.name == CATCH_ALL).cloned();
        Active {
            catch_all: catch_all.unwrap_or_else(|| self.last_resort()),
            levels: self.levels.values().map(|s| s.level.clone()).collect(),
            schemas,
        }
    }

    /// Returns a schema for all requests. Every configuration has a catch-all
    /// schema, so this one is needed only if that is ever untrue.
    fn last_resort(&self) -> Arc<Schema> {
        let [_, object] = mandatory_flow_schemas();
        let level = match self.levels.get(CATCH_ALL) {
            Some(state) => state.level.clone(),
            None => Level::new(CATCH_ALL, &self.surroundings),
        };
        Arc::new(Schema::new(&object, level, "", false))
    }
}

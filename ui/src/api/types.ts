/** The wire types that the page uses by name. They are generated from docs/openapi.json. */
import type { components } from './schema'

type Schemas = components['schemas']

export type Server = Schemas['Server']
export type Servers = Schemas['Servers']
export type ServerDetails = Schemas['ServerDetails']
export type RecentCalls = Schemas['RecentCalls']
export type ServerFigures = Schemas['ServerFigures']
export type Figures = Schemas['Figures']
export type Pending = Schemas['Pending']
export type Operated = Schemas['Operated']
export type Event = Schemas['Event']
export type Events = Schemas['Events']
export type LogLine = Schemas['LogLine']
export type Logs = Schemas['Logs']
export type CallRecord = Schemas['CallRecord']
export type CallRecords = Schemas['CallRecords']
export type RecordGap = Schemas['RecordGap']
export type WholeCallRecord = Schemas['WholeCallRecord']
export type Statistics = Schemas['Statistics']
export type ToolStatistics = Schemas['ToolStatistics']
export type CallStatistics = Schemas['CallStatistics']
export type History = Schemas['History']
export type ServerHistory = Schemas['ServerHistory']
export type Transition = Schemas['Transition']
export type ServerRequest = Schemas['ServerRequest']
export type ServerRequests = Schemas['ServerRequests']
export type ClientToken = Schemas['ClientToken']
export type AddedToken = Schemas['AddedToken']
export type TokenLimits = Schemas['TokenLimits']
export type AccessOverview = Schemas['AccessOverview']
export type AccessExplanation = Schemas['AccessExplanation']
export type Prompt = Schemas['Prompt']
export type Prompts = Schemas['Prompts']
export type Resource = Schemas['Resource']
export type Resources = Schemas['Resources']
export type Template = Schemas['Template']
export type Templates = Schemas['Templates']
export type Switches = Schemas['Switches']
export type ConfigText = Schemas['ConfigText']
export type Finding = Schemas['ConfigFinding']
export type Profile = Schemas['Profile']
export type Profiles = Schemas['Profiles']
export type Session = Schemas['Session']
export type Sessions = Schemas['Sessions']
/** A client of a revision without sessions, which called lately. */
export type StatelessClient = Schemas['StatelessClient']
export type StatelessClients = Schemas['StatelessClients']
/** A server in the file of a client. Secrets are `***`. */
export type ClientServer = Schemas['ClientFileEntry']
export type ClientFile = Schemas['ClientOnMachine']
export type ClientFiles = Schemas['ClientFiles']
export type ClientImport = Schemas['ImportedFromClient']
export type About = Schemas['About']
export type JournalHealth = Schemas['AboutJournal']
export type Login = Schemas['Login']
export type Logins = Schemas['Logins']
export type BegunLogin = Schemas['BegunLogin']
export type LoggedOut = Schemas['LoggedOut']

export type Plan = Schemas['Plan']
export type PlanAction = Schemas['PlanAction']
export type ConfigCheck = Schemas['CheckedConfig']
export type ConfigSaved = Schemas['ConfigUpdated']
export type Reloaded = Schemas['Reloaded']
export type Tool = Schemas['Tool']
export type Trial = Schemas['TrialRun']
export type TrialShown = Schemas['ShownTarget']
export type ImportPreview = Schemas['ImportPreview']
export type PreviewedServer = Schemas['PreviewedServer']

/** Types of events of `GET /api/events`, beside `snapshot` and `missed`. */
export const EVENT_TYPES = [
  'server_added',
  'server_removed',
  'server_starting',
  'server_connected',
  'server_disconnected',
  'server_reconnecting',
  'server_reconnected',
  'server_health_degraded',
  'server_health_restored',
  'server_failed',
  'call_refused',
  'call_allowed',
  'tools_changed',
  'config_reloaded',
  'config_rejected',
  'certificate_replaced',
  'certificate_expiring',
  'certificate_expired',
  'certificate_rejected',
  'server_request_waiting',
  'server_request_settled',
] as const

export type EventType = (typeof EVENT_TYPES)[number]
